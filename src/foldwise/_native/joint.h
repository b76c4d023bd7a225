// What of several reductions of one array can be folded in one loop, and who does it for the others.
#pragma once
#include <span>

#include "company.h"
#include "lines.h"

namespace foldwise::FOLDWISE_ISA {

struct Onward;

// Reductions that go alike: of each part as many as ask for it, who end it in different ways.
struct JointPlans {
  const ReducePlan& plan;  // of one that reads them as they lie
  bool from_memory;
  Member* parts[parts_in_loop][most_together] = {};
  int counts[parts_in_loop] = {};

  std::span<Member* const> of(std::size_t part) const { return {parts[part], static_cast<std::size_t>(counts[part])}; }
};

// How all parts of a dtype are folded, whether they are asked for or not.
struct JointLoop {
  static constexpr int fewest = 3;              // parts that are asked for
  static constexpr int64_t most_step = 64;      // elements that all of them take at once
  static constexpr int64_t span = 16384;        // elements: of every fold as many blocks as a power of two
  static constexpr int64_t least_row = 64;      // elements, and no more than a span; of rows side by side, too
  static constexpr int64_t least_few = 8, most_few = 1024;  // rows side by side
  static constexpr int64_t distance = 8192;     // how far ahead memory is asked for: there is more to do with a line
  // Of columns: more rows that lie a power of two apart evict each other.
  static constexpr int64_t rows = vector_bytes == 64 ? 8 : 4, apart = 32;

  int64_t columns;           // that are folded side by side
  int item[parts_in_loop];   // bytes of an element as each of them would read it by itself, converted or not
  bool real[parts_in_loop];  // whether it accumulates floats

  // A span, piece by piece: all but the last are whole steps. Afterwards each has its lanes.
  int64_t state_bytes;
  void (*open)(void* state);
  void (*take)(void* state, const char* p, int64_t at, int64_t count, const Ahead& ahead);
  void (*close)(void* state, int64_t count, const char* (&lanes)[parts_in_loop]);

  // All there is to do: of rows that lie whole and are no longer than a span; of no more than few rows side by side.
  void (*fold_rows)(const JointPlans& all);
  void (*fold_few_rows)(const JointPlans& all);

  // Rows that lie `stride` apart, whose neighbours are `apart` of an array's: into a lane of each, or of those who have so many
  // in turn into two. Accumulators that are not resumed hold nothing so far.
  void (*fold_columns)(const char* p, int64_t stride, int64_t columns, char* const (*tiles)[2], unsigned resumed, const Onward& onward);
};

// Null where there is none. Exactly: with integers' sums in 128 bits, of which their means are made.
const JointLoop* joint_loop_for(Dtype source, bool exactly = false);

// One of a company whose elements such a loop may take. Of several that are alike one leads: it takes those of the others, too.
struct Taker : Partner {
  enum class Way : std::uint8_t { sequence, columns };

  Way way;
  Part part;
  bool real;
  int64_t item;
  Dtype source;
  bool may_lead, follows = false;
  const JointLoop* loop = nullptr;  // of those who lead or follow
  Taker* parts[parts_in_loop] = {};

  Taker(Way goes, Part of, bool in_floats, int64_t bytes, Dtype dtype, bool leads)
      : way(goes), part(of), real(in_floats), item(bytes), source(dtype), may_lead(leads) {}

  template <class T, class Act>
  void each_part(Act&& act) const {
    for (int i = 0; i < parts_in_loop; ++i) {
      if (parts[i]) act(i, *static_cast<T*>(parts[i]));
    }
  }
};

// One of a company that goes through columns.
struct ColumnTaker : Taker {
  static constexpr int64_t most_row_bytes = 4096;

  // Rows of a window that are of one lane, or of this and another, and which lane comes after it.
  struct Turn {
    int64_t lane, first, next;
  };
  struct Lanes {
    char* tiles[2];  // for rows in turn
    bool resumed;
  };
  Lanes (*lanes_for)(ColumnTaker&, Turn turn);
  void (*taken)(ColumnTaker&, Turn turn, unsigned raised);

  // Whole rows, for all in the loop.
  void lead(const char* p, int64_t stride, int64_t rows, int64_t columns, Turn turn, int64_t to_next);
};

// Before any of a company takes a step: who leads whom.
void arrange(std::span<Partner* const> company);

}  // namespace foldwise::FOLDWISE_ISA
