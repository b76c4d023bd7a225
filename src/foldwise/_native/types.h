// The words every part of the core shares: dtypes, plans, and the table of kernels an ISA offers.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace foldwise {

using std::int64_t;
using std::uint64_t;

// The order is the order of dtypes.TABLE in Python, which passes these codes.
enum class Dtype : std::uint8_t {
  boolean, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, bfloat16, float32, float64, count
};
constexpr int dtype_count = static_cast<int>(Dtype::count);

constexpr int64_t item_size(Dtype dtype) {
  constexpr std::int8_t sizes[] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8};
  return sizes[static_cast<int>(dtype)];
}
constexpr bool is_float(Dtype dtype) { return dtype >= Dtype::float16; }

// Sixteen-bit floats have no arithmetic of their own: they are loaded, widened, and rounded once on the way out.
struct half { std::uint16_t bits; };
struct bfloat { std::uint16_t bits; };

constexpr int max_rank = 64;

// So many elements are worth going along again and again, where another axis does not move.
constexpr int64_t worth_repeating = 16;

// One axis of the work: its length, and how far one step along it moves in each array, in bytes. (A scan has no mask; there
// `mask` moves in what is carried.)
struct Axis {
  int64_t size, x, mask, out;
};

// Where elements come from. `direct` means that the kernel can read memory as it lies.
struct Source {
  Dtype dtype;
  bool swapped;
  bool direct;
  const char* x;
  const char* mask;  // a boolean array of the same geometry, or null
};

// What is there for each output: a result, or an exact sum that is kept for more to come (exact.h).
enum class Kept : std::uint8_t { result, total, doubles };

// Where results go, and in which dtype.
struct Sink {
  Dtype dtype;
  bool direct;  // same dtype as the accumulator, native byte order
  char* out;
  Kept kept = Kept::result;
};

// What is done to the folded value at the very end. A mean of integers is exact before it is cut (mean) or rounded to
// float64 (ratio).
enum class Ending : std::uint8_t { none, mean, ratio, root, log };
constexpr const char* endings[] = {"none", "mean", "ratio", "root", "log"};

// What turns an accumulator into a result, beside the accumulator itself.
struct Finish {
  double number;             // the initial value (of a scan: the identity), for floats
  uint64_t integer;          // and for integers
  __int128 lowest, highest;  // what the output dtype can hold, for judging integers
  Ending ending = Ending::none;
  int64_t count = 1;         // of folded elements, for means
};

enum class Shape : std::uint8_t {
  rows,     // the innermost axis is folded
  flat,     // a few interleaved sequences, contiguous: folded K at a time
  columns,  // the innermost axis is kept
};

class Company;  // company.h

// A reduction laid out: kept and folded axes in memory order (outermost first), neighbours collapsed.
struct ReducePlan {
  Shape shape;
  int kept_rank, fold_rank, repeated_rank;
  Axis kept[max_rank], fold[max_rank];
  Axis repeated[max_rank];  // kept ones along which no array moves but that of the results: these are copied when they are there
  int64_t count;    // folded elements per output
  int64_t outputs;  // that are no copies
  Source source;
  Sink sink;
  Finish finish;
  Company* company = nullptr;  // others that read the same memory in step with it
};

// A scan laid out: kept axes in memory order, and the one axis walked.
struct ScanPlan {
  int kept_rank;
  Axis kept[max_rank];
  Axis along;        // already flipped for reverse
  int nest_rank;     // not 0: the line runs through these axes in turn, the last one fastest; `along` is where it goes
  Axis nest[max_rank];
  int64_t lines;     // product of the kept sizes
  bool shifted;      // element k of the fold goes to position k + 1; position 0 holds the identity
  int64_t length;    // positions of the output along the axis
  Source source;
  Sink sink;
  Finish finish;
  char* carried = nullptr;  // of exact sums: Doubles (exact.h), what comes before each line, and then with it

  // Whether neighbouring lines are nearer to each other in memory than what follows in one of them: where either does not move, and the
  // other is no short one, in that of the results.
  bool columns_are_closer() const {
    if (!kept_rank) return false;
    const Axis& across = kept[kept_rank - 1];
    const bool still = across.x == 0 ? length >= worth_repeating : along.x == 0 && across.size >= worth_repeating;
    return still ? std::abs(across.out) < std::abs(along.out) : std::abs(across.x) < std::abs(along.x);
  }
};

// What there are loops for that fold several at once: all of these. Whoever is not asked for is folded all the same, and forgotten.
enum class Part : std::uint8_t { total, largest, smallest, squares, exact_total, none };
constexpr int parts_in_loop = static_cast<int>(Part::none);

// One fold over one kernel dtype on one ISA. Both return false when an integer overflowed that was not to wrap.
struct Kernel {
  struct Scan {
    bool (*run)(const ScanPlan&);
    Dtype value;
  };
  bool (*reduce)(const ReducePlan&);
  Dtype reduced;  // what it accumulates in, hence what it writes without converting
  Scan scan;
  Scan wrapping;  // of integers that are widened, for results as short as they: those wrap, so it may as well at every step
  Part part = Part::none;
};

// The rows of an ISA's table: every line of folds.def.
enum class FoldId : std::uint8_t {
#define FOLDWISE_FOLD(name, ...) name,
#include "folds.def"
#undef FOLDWISE_FOLD
  count
};
constexpr int fold_count = static_cast<int>(FoldId::count);

// The dtypes that kernels read from memory as they lie; every other one is converted in cache, block by block.
enum class Column : std::uint8_t { float16, bfloat16, float32, float64, int32, int64, uint64, uint8, int8, int16, uint16, count };
constexpr int column_count = static_cast<int>(Column::count);

struct Member;  // company.h

struct KernelTable {
  Kernel kernels[fold_count][column_count];
  void (*fold_jointly)(Member* members, int count);  // joint.h
};

}  // namespace foldwise
