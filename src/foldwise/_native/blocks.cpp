// What every fold needs between memory and kernels, compiled once per ISA.
#include "interleave.h"
#include "results.h"

namespace foldwise::FOLDWISE_ISA {

#define FOLDWISE_HERE(T)                           \
  template Gather<T> gather_for<T>(const Source&); \
  template struct Reader<T>;
FOLDWISE_EACH_COLUMN(FOLDWISE_HERE)
#undef FOLDWISE_HERE

#define FOLDWISE_HERE(A) template Scatter<A> scatter_for<A>(Dtype);
FOLDWISE_EACH_VALUE(FOLDWISE_HERE)
#undef FOLDWISE_HERE

#define FOLDWISE_HERE(Word)                                                                        \
  template void deinterleave_words<Word>(Word*, int64_t, const Word*, int64_t, int64_t);           \
  template void interleave_words<Word>(Word*, const Word*, int64_t, int64_t, int64_t);
FOLDWISE_EACH_WORD(FOLDWISE_HERE)
#undef FOLDWISE_HERE

#define FOLDWISE_HERE(Word) template void transpose_words<Word>(Word*, int64_t, const char*, int64_t, int64_t, int64_t);
FOLDWISE_EACH_LONG_WORD(FOLDWISE_HERE)
#undef FOLDWISE_HERE

}  // namespace foldwise::FOLDWISE_ISA
