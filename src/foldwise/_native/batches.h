// Short rows in batches, whatever folds them: how they are walked and gathered, and where their results go.
#pragma once
#include "blocks.h"
#include "units.h"

namespace foldwise::FOLDWISE_ISA {

// Some rows, evenly spaced, and the place of their results; room for those that are not written there at once: they wait for their
// way past the caches, or are converted.
struct RowBatch {
  const char* x;
  int64_t stride, rows;
  bool narrow;  // rows of two to four elements, one after the other, and many of them
  bool waits;
  char *out, *room;
};

struct RowFold {
  static constexpr int64_t state_bytes = 256, gathered_bytes = 16 << 10, room_bytes = 8 << 10;
  static constexpr int64_t few = 256;  // rows that adjoin

  int64_t item, vector, block;      // bytes of an element as it is read; elements of a vector, and of a block
  int64_t most_rows, most_elements;  // of a batch, but for one vector of rows
  bool rounds;                      // whether results are in the dtype that they are wanted in, whatever it is
  void (*open)(void* state);        // of a thread's batches; or null
  void (*read)(const void* reduction, char* to, Cursor& from, int64_t count);
  void (*fold)(void* reduction, void* state, const RowBatch& batch);
};

// `reduction` is what fold and read are handed back; `weight`: bytes that are read in the time that an element takes.
void fold_in_batches(const ReducePlan& plan, const RowFold& fold, void* reduction, int64_t weight);

}  // namespace foldwise::FOLDWISE_ISA
