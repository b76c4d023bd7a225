// Strips of columns, whatever folds them: how wide they are, and where their rows lie.
#pragma once
#include "blocks.h"
#include "rows.h"

namespace foldwise::FOLDWISE_ISA {

// What there is to know of a fold.
struct StripKind {
  int64_t item, vector;       // bytes of an element as it is read; elements of a vector
  int64_t loaded;             // bytes that are loaded at once
  int64_t block;              // rows that are handed on at once
  int64_t tile_columns;       // of a strip that lies whole
  int64_t few, few_in_cache;  // so many rows stay in registers: strips are wider
  // What shares a line of cache with a row may be folded, too, as nobody learns of it; unless it is strange, if that takes longer. Outside of
  // the array, where NumPy has numbers of its own, it may well be: folds to which most of these are strange never look there.
  bool looks_beside, minds_strange, minds_outside;
  bool late;  // from memory, rows can be gathered when they are read
  // Columns of some rows, and after those of each, up to whole vectors, what is absent.
  void (*read)(const void* reduction, char* to, int64_t padded, const char* x, const char* mask, const Axis& along, const Axis& across,
               int64_t columns, int64_t rows);
};

// Where the rows of a strip lie, or those rows gathered, or how they will be.
struct StripRoom {
  Tiles<const char*> places;
  Tiles<char> gathered;
  Gathering gathering{};
};

class Strips {
  const ReducePlan& plan_;
  const StripKind& kind_;
  const void* const reduction_;  // handed back to `read`
  const int64_t blocks_;
  const bool prefetch_;

 public:
  static constexpr int64_t few_rows_columns = 4096;

  const Axis& kept;
  const bool contiguous;
  const bool late;
  const bool few;
  // In the second cache a vector that lies on two lines takes twice the time. So vectors begin where lines do, or halves of them, if
  // rows do not: the first of a row has some lanes for what lies before it, the last for what lies behind. If that is outside of the array,
  // it may be kept out.
  const int64_t beside;
  const bool keeps_out;
  // All columns then, or else those that fill vectors where they lie: what is left over is a strip of its own, a vector whose first
  // columns are in another strip, too, unless there are too few for any.
  const int64_t even;
  const int64_t whole_columns, even_strips, per_line, count;
  const int64_t unit_columns, unit_bytes;
  const int64_t most_rows, vectors;

  // `weight`: bytes that are read in the time that an element takes.
  Strips(const ReducePlan& plan, const StripKind& kind, const void* reduction, int64_t weight, bool prefetch);

  bool shares_rows() const;
  int64_t columns_of(int64_t unit) const {
    const int64_t first = column_of(unit);
    return first < even ? std::min(whole_columns - skipped_of(unit), even - first) : kept.size - even;
  }
  // Lanes of the first vector, or of the first two, that are not of the strip.
  int64_t skipped_of(int64_t unit) const {
    if (unit % per_line == 0 && beside) return beside;
    return contiguous && kept.size >= kind_.vector && column_of(unit) == even ? kind_.vector - (kept.size - even) : 0;
  }
  int64_t vectors_of(int64_t unit) const { return (columns_of(unit) + skipped_of(unit) + kind_.vector - 1) / kind_.vector; }
  char* out_of(int64_t unit) const;

  StripRoom room() const;
  // Some rows of one strip, columns padded to whole vectors: as they lie, or gathered. Those that have something beside them that is kept
  // out, the first and the last of all, are gathered for that.
  RowPlaces rows_of(int64_t unit, int64_t first, int64_t rows, StripRoom& room) const;

 private:
  friend Gathering;
  int64_t padded(int64_t columns) const { return (columns + kind_.vector - 1) / kind_.vector * kind_.vector; }
  int64_t lanes_beside() const;
  int64_t gathered_rows() const;
  int64_t columns_for(int64_t weight) const;
  int64_t column_of(int64_t unit) const {
    return std::min(std::max<int64_t>(unit % per_line * whole_columns - beside, 0), even);
  }
  Cursor start_of(int64_t unit) const;
};

}  // namespace foldwise::FOLDWISE_ISA
