// Included once per ISA, with FOLDWISE_ISA naming it: declares its kernels and gathers them into a table.
#define FOLDWISE_JOIN_(a, b, c) a##b##_##c
#define FOLDWISE_JOIN(a, b, c) FOLDWISE_JOIN_(a, b, c)

#define FOLDWISE_FOLD(name, ...) void FOLDWISE_JOIN(fill_, FOLDWISE_ISA, name)(Kernel * row);
#include "folds.def"
#undef FOLDWISE_FOLD

namespace FOLDWISE_ISA {
void fold_jointly(Member* members, int count);
}

inline void FOLDWISE_JOIN(fill_, FOLDWISE_ISA, all)(KernelTable& table) {
#define FOLDWISE_FOLD(name, ...) \
  FOLDWISE_JOIN(fill_, FOLDWISE_ISA, name)(table.kernels[static_cast<int>(FoldId::name)]);
#include "folds.def"
#undef FOLDWISE_FOLD
  table.fold_jointly = FOLDWISE_ISA::fold_jointly;
}

#undef FOLDWISE_JOIN
#undef FOLDWISE_JOIN_
#undef FOLDWISE_ISA
