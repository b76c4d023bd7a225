// Compiled once per ISA, as what it calls is.
#include "strips.h"

#include "lines.h"

namespace foldwise::FOLDWISE_ISA {

namespace {

constexpr int64_t least_columns = 128;
constexpr int64_t first_cache = 32 << 10;  // beyond which it matters where vectors lie
constexpr int64_t least_kept_out = 16;     // rows, of which two are copied
constexpr int64_t least_vectors = 8;       // of a row
constexpr int64_t gathered_bytes = 1 << 20, gathered_ahead = 8;  // rows
constexpr int64_t turn_bytes = 512, rows_turn_bytes = 4096;

}  // namespace

Strips::Strips(const ReducePlan& plan, const StripKind& kind, const void* reduction, int64_t weight, bool prefetch)
    : plan_(plan),
      kind_(kind),
      reduction_(reduction),
      blocks_((plan.count + kind.block - 1) / kind.block),
      prefetch_(prefetch),
      kept(innermost_kept(plan)),
      contiguous(plan.source.direct && kept.x == kind.item),
      late(kind.late && prefetch && !contiguous && std::min(plan.count, kind.block) * kept.size * kind.item > gathered_bytes),
      few(contiguous && plan.fold_rank == 1 && plan.count <= (prefetch ? kind.few : kind.few_in_cache)),
      beside(lanes_beside()),
      keeps_out(beside && kind.minds_strange && plan.count >= least_kept_out),
      even(contiguous && !beside ? kept.size / kind.vector * kind.vector : kept.size),
      whole_columns(few ? few_rows_columns : columns_for(weight)),
      even_strips((beside + even + whole_columns - 1) / whole_columns),
      per_line(even_strips + (even < kept.size)),
      count(plan.outputs / kept.size * per_line),
      unit_columns(even ? std::min(whole_columns, beside + even) : kept.size),
      unit_bytes(plan.count * unit_columns * weight),
      most_rows(std::min(kind.block, plan.count)),
      vectors((unit_columns + kind.vector - 1) / kind.vector) {}

// Where all rows begin at the same place of what is loaded at once, or of a vector; for folds that mind what is strange, where beside a row is
// another one. Copies of rows, and a vector more, must be worth it.
int64_t Strips::lanes_beside() const {
  const int64_t vector = kind_.vector * kind_.item;
  const auto alike = [this](int64_t bytes) {
    const auto all = [=](const Axis* axes, int rank) { return std::all_of(axes, axes + rank, [=](const Axis& a) { return a.x % bytes == 0; }); };
    return all(plan_.fold, plan_.fold_rank) && all(plan_.kept, plan_.kept_rank - 1);
  };
  const int64_t bytes = kept.size >= least_vectors * kind_.vector && alike(kind_.loaded) ? kind_.loaded : vector;
  const auto beyond = static_cast<int64_t>(reinterpret_cast<std::uintptr_t>(plan_.source.x) % bytes);
  const bool adjoining = plan_.fold_rank && plan_.fold[plan_.fold_rank - 1].x == kept.size * kind_.item;
  const bool suits = kind_.looks_beside && (adjoining || !kind_.minds_strange) && contiguous && !prefetch_ &&
                     (plan_.count >= least_kept_out || !kind_.minds_outside) &&
                     plan_.count * plan_.outputs * kind_.item >= first_cache &&
                     kept.size >= (kind_.minds_outside ? least_vectors : 2) * kind_.vector && beyond % kind_.item == 0 && alike(bytes);
  return suits ? beyond / kind_.item : 0;
}

// So wide that a row of a strip is worth a walk to it, and no wider than every thread has a strip, unless there are rows
// enough to be shared out. Of rows that are gathered, as many as stay in the second cache.
int64_t Strips::columns_for(int64_t weight) const {
  const int64_t W = kind_.vector, lines = plan_.outputs / kept.size;
  int64_t columns = kind_.tile_columns;
  if (!contiguous && !late) {
    columns = std::clamp<int64_t>(gathered_bytes / kind_.item / std::clamp<int64_t>(plan_.count, 1, kind_.block) / W, 2, 32) * W;
  }
  const int threads = shares_rows() ? 1 : threads_for(plan_.count * plan_.outputs * weight);
  while (columns > least_columns && lines * ((even + columns - 1) / columns) < threads) columns = (columns / 2 + W - 1) / W * W;
  return columns;
}

bool Strips::shares_rows() const { return blocks_ >= 4 * thread_count(); }

Cursor Strips::start_of(int64_t unit) const {
  return Cursor(plan_.kept, plan_.kept_rank - 1, plan_.source.x, plan_.source.mask, unit / per_line);
}
char* Strips::out_of(int64_t unit) const { return plan_.sink.out + start_of(unit).out + column_of(unit) * kept.out; }

int64_t Strips::gathered_rows() const {
  if (contiguous && (even == kept.size || kept.size >= kind_.vector)) return keeps_out ? 2 : 0;
  return late ? most_side_by_side : most_rows;
}
StripRoom Strips::room() const {
  return {Tiles<const char*>(contiguous && (plan_.fold_rank != 1 || keeps_out) ? most_rows : 0),
          Tiles<char>(gathered_rows() * vectors * kind_.vector * kind_.item)};
}

int64_t Gathering::row_bytes() const { return strips->padded(columns) * strips->kind_.item; }

void Gathering::gather(int64_t row, char* gathered, int64_t apart) const {
  const Axis& kept = strips->kept;
  const ReducePlan& plan = strips->plan_;
  const StripKind& kind = strips->kind_;
  const int64_t padded = strips->padded(columns);
  const Cursor from(plan.fold, plan.fold_rank, x, mask, first + row);
  const bool fetches = kept.x <= line_bytes && plan.fold_rank;
  const int64_t to_next = fetches ? apart * plan.fold[plan.fold_rank - 1].x : 0;
  // Of long ones in turns: little is asked for while as much is read.
  const int64_t turn = fetches && columns * kept.x > 8 * turn_bytes ? turn_bytes / kept.x : columns;
  for (int64_t done = 0, here; done < columns; done += here) {
    here = std::min(turn, columns - done);
    const char* p = from.x + done * kept.x;
    if (fetches) fetch_lines(p + to_next, here * kept.x, true);
    const int64_t whole = done + here < columns ? here : padded - done;
    kind.read(strips->reduction_, gathered + done * kind.item, whole, p, from.mask + done * kept.mask, kept, kept, here, 1);
  }
}

const char* Gathering::bring(int64_t row, int place, int64_t apart) const {
  char* const gathered = to + place * row_bytes();
  gather(row, gathered, apart);
  return gathered;
}

int64_t Gathering::lane_bytes(int64_t lanes, int64_t count) const { return (count + lanes - 1) / lanes * (row_bytes() + lanes); }

RowPlaces Gathering::lane(int64_t lane, int64_t lanes, int64_t count, char* room) const {
  const int64_t stride = (row_bytes() + lanes - 1) / lanes;  // of rows of other lanes, which are not there
  for (int64_t row = lane; row < count; row += lanes) gather(row, room + (row - lane) * stride, lanes);
  return {room - lane * stride, stride, nullptr, count};
}

RowPlaces Strips::rows_of(int64_t unit, int64_t first, int64_t rows, StripRoom& room) const {
  const Cursor start = start_of(unit);
  const int64_t skipped = skipped_of(unit), columns = columns_of(unit) + skipped, column = column_of(unit) - skipped;
  const char* x = start.x + column * kept.x;
  const int64_t padded = this->padded(columns), row_bytes = padded * kind_.item;
  const bool as_they_lie = contiguous && (columns == padded || beside);
  const bool begins = keeps_out && first == 0 && skipped, ends = keeps_out && first + rows == plan_.count && columns < padded;
  if (as_they_lie && plan_.fold_rank == 1 && !begins && !ends) {
    const int64_t stride = plan_.fold[0].x;
    return {x + first * stride, stride, nullptr, rows};
  }
  if (late) {
    room.gathering = {this, x, start.mask + column * kept.mask, first, columns, room.gathered.data};
    return {nullptr, 0, nullptr, rows, &room.gathering};
  }
  Cursor from(plan_.fold, plan_.fold_rank, x, start.mask + column * kept.mask, first);
  if (as_they_lie) {
    const char** const places = room.places.data;
    for (int64_t r = 0; r < rows; ++r, from.advance(1)) places[r] = from.x;
    const auto alone = [&](const char*& row, int64_t place) {
      char *const to = room.gathered.data + place * row_bytes, *const own = to + skipped * kind_.item;
      kind_.read(reduction_, to, skipped, row, nullptr, kept, kept, 0, 1);
      kind_.read(reduction_, own, padded - skipped, row + skipped * kept.x, nullptr, kept, kept, columns - skipped, 1);
      row = to;
    };
    if (begins) alone(places[0], 0);
    if (ends) alone(places[rows - 1], 1);
    return {nullptr, 0, places, rows};
  }
  const Axis& down = plan_.fold_rank ? plan_.fold[plan_.fold_rank - 1] : kept;
  const bool fetches = prefetch_ && kept.x <= line_bytes && plan_.fold_rank;
  // In turns, too, of several rows where they are short.
  const int64_t turn = fetches ? std::max<int64_t>(1, rows_turn_bytes / std::max<int64_t>(1, columns * kept.x)) : rows;
  for (int64_t r = 0, some; r < rows; r += some, from.advance(some)) {
    some = std::min({turn, rows - r, from.left_in_line()});
    for (int64_t later = r + std::max(turn, gathered_ahead), last = std::min(later + some, rows); fetches && later < last; ++later) {
      fetch_lines(from.x + (later - r) * down.x, columns * kept.x, true);
    }
    kind_.read(reduction_, room.gathered.data + r * row_bytes, padded, from.x, from.mask, kept, down, columns, some);
  }
  return {room.gathered.data, row_bytes, nullptr, rows};
}

}  // namespace foldwise::FOLDWISE_ISA
