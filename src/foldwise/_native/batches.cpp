// Compiled once per ISA, as what it calls is.
#include "batches.h"

#include "interleave.h"
#include "results.h"

namespace foldwise::FOLDWISE_ISA {

namespace {

struct Batches {
  const ReducePlan& plan;
  const RowFold& fold;
  void* const reduction;
  const Axis& kept;
  const int64_t item, result;  // bytes, in memory
  const bool direct;
  // Rows one after the other: if they are converted, all at once.
  const bool adjoin, narrow;
  // Of narrow rows results are a part of what memory moves: they go past the caches, from where a line of cache begins.
  const bool streams;
  Axis rows_and_folded[max_rank];
  const int nest_rank;

  Batches(const ReducePlan& p, const RowFold& f, void* r)
      : plan(p),
        fold(f),
        reduction(r),
        kept(innermost_kept(p)),
        item(item_size(p.source.dtype)),
        result(item_size(p.sink.dtype)),
        direct(rows_lie_whole(p, f.item)),
        adjoin(!p.source.mask && p.fold_rank <= 1 && innermost_step(p, f.item) == item && kept.x == p.count * item),
        narrow(adjoin && p.count >= 2 && p.count <= most_interleaved_words && kept.size >= RowFold::few),
        streams(narrow && (f.rounds ? p.sink.kept == Kept::result : p.sink.direct) && kept.out == result &&
                p.outputs * result > stream_bytes),
        nest_rank(std::min(p.kept_rank, 1) + p.fold_rank) {
    rows_and_folded[0] = kept;
    std::copy_n(p.fold, p.fold_rank, rows_and_folded + nest_rank - p.fold_rank);
  }

  // The outputs first..last - 1.
  void run(int64_t first, int64_t last) const {
    alignas(64) char gathered[RowFold::gathered_bytes], room[RowFold::room_bytes];
    alignas(64) char state[RowFold::state_bytes];
    if (fold.open) fold.open(state);
    Cursor at(plan.kept, plan.kept_rank, plan.source.x, plan.source.mask, first);
    while (first < last) {
      const int64_t most = std::min(fold.most_rows, std::max<int64_t>(1, fold.most_elements / plan.count / fold.vector) * fold.vector);
      int64_t rows = std::min({at.left_in_line(), last - first, most});
      char* out = plan.sink.out + at.out;
      if (streams && rows == fold.most_rows) {
        rows -= static_cast<int64_t>(reinterpret_cast<std::uintptr_t>(out)) / result % (line_bytes / result);
      }
      RowBatch batch{at.x, kept.x, rows, narrow, streams, out, room};
      if (!direct) gather(batch, at, gathered);
      fold.fold(reduction, state, batch);
      if (streams) stream(out, room, batch.rows * result);
      at.advance(batch.rows);
      first += batch.rows;
    }
    if (streams) finish_streaming();
  }

  void gather(RowBatch& batch, const Cursor& at, char* to) const {
    batch.rows = std::clamp<int64_t>(2 * fold.block / plan.count, 1, batch.rows);
    const int64_t row_bytes = plan.count * fold.item;
    if (adjoin) {
      const Axis all{batch.rows * plan.count, item, 0, 0};
      Cursor from(&all, 1, at.x, nullptr, 0);
      fold.read(reduction, to, from, all.size);
    } else {
      Cursor from(rows_and_folded, nest_rank, at.x, at.mask, 0);
      fold.read(reduction, to, from, batch.rows * plan.count);
    }
    batch.x = to;
    batch.stride = row_bytes;
  }
};

}  // namespace

void fold_in_batches(const ReducePlan& plan, const RowFold& fold, void* reduction, int64_t weight) {
  const Batches batches(plan, fold, reduction);
  divide(plan, plan.outputs, plan.count * weight, [&](int64_t first, int64_t last) { batches.run(first, last); });
}

}  // namespace foldwise::FOLDWISE_ISA
