// Compiled once per ISA, as what it calls is.
#include "short_sums.h"

#include <atomic>

#include "lines.h"

namespace foldwise::FOLDWISE_ISA {

namespace {

constexpr int64_t block = 16384;                      // elements of lines that threads may share
constexpr int64_t rows_at_once = 256;                 // of columns: as many bytes as lanes hold
constexpr int64_t strip_columns = 2048;               // whose lanes stay in the first cache
constexpr int64_t narrow = 512, some_columns = 1024;  // rows that are shorter are taken several at a time
constexpr int64_t least_line = 48, least_row = 16;    // elements; fewer are converted in as little time
constexpr int64_t beyond = native<int64_t>;           // so many results are more than a vector of them
constexpr int64_t side_by_side = 4;                   // rows

// Words by twos: every second one, and those between, each in lanes twice as wide, which hold some hundreds of bytes before they
// become wider again. Words are added without signs: of signed ones, how far they are above the least; of truths, 0 or 1.
template <class Word>
struct ShortWords {
  using Lane = typename WordOf<2 * sizeof(Word)>::type;
  using Words = typename VectorOf<Word, native<Word>>::type;
  using Lanes = typename VectorOf<Lane, native<Lane>>::type;
  using Long = typename VectorOf<uint64_t, native<uint64_t>>::type;
  static constexpr int N = native<Word>, bits = 8 * sizeof(Word);
  static constexpr int64_t held = int64_t{1} << std::min(bits, 16);

  const Words least, most;

  ShortWords(uint64_t least_word, bool truths)
      : least(splat<Word, N>(static_cast<Word>(least_word)).v[0]), most(splat<Word, N>(static_cast<Word>(truths ? 1 : -1)).v[0]) {}

  static FW_INLINE Lanes even(Lanes both) { return both & Lane{Word(-1)}; }
  static FW_INLINE Lanes odd(Lanes both) { return both >> bits; }
  FW_INLINE Lanes of(Words x) const {
    x ^= least;
    if constexpr (sizeof(Word) == 1) x = x < most ? x : most;
    return (Lanes)x;
  }
  FW_INLINE Lanes at(const Word* p) const { return of(load_vector<Word, N>(p)); }
  FW_INLINE Lanes some(const Word* p, int64_t count) const { return of(load_some<Word, N>(p, static_cast<int>(count), Word{0}).v[0]); }

  static FW_INLINE void add(Lanes& evens, Lanes& odds, Lanes both) {
    evens += even(both);
    odds += odd(both);
  }
  static FW_INLINE Long lengthened(Lanes x) {
    if constexpr (sizeof(Lane) == sizeof(uint64_t)) {
      return x;
    } else {
      using Next = ShortWords<Lane>;
      return Next::lengthened(Next::even((typename Next::Lanes)x) + Next::odd((typename Next::Lanes)x));
    }
  }

  // All of a line, while what lies so far ahead is asked for.
  FW_INLINE uint64_t line_total(const Word* p, int64_t count, int64_t ahead) const {
    Long all{};
    Lanes evens{}, odds{};
    const int64_t rest = count % N;
    if (rest) add(evens, odds, some(p + count - rest, rest));
    int64_t vectors = count / N, room = held - (rest > 0);
    do {
      int64_t here = std::min(vectors, std::exchange(room, held));
      vectors -= here;
      const auto next = [&] FW_INLINED {
        if (ahead) ask_for(p, ahead);
        add(evens, odds, at(p));
        p += N;
      };
      for (; here >= 4; here -= 4) repeat<4>([&](int) FW_INLINED { next(); });
      for (; here; --here) next();
      all += lengthened(std::exchange(evens, Lanes{})) + lengthened(std::exchange(odds, Lanes{}));
    } while (vectors);
    return summed(Pack<uint64_t, native<uint64_t>>{{all}}) - uint64_t{least[0]} * static_cast<uint64_t>(rest ? N - rest : 0);
  }

  template <int R>
  FW_INLINE void take_rows(const char* const* rows, int64_t columns, Lanes* lanes) const {
    const auto take = [&](int64_t c, auto&& load) FW_INLINED {
      Lanes evens = lanes[2 * (c / N)], odds = lanes[2 * (c / N) + 1];
      repeat<R>([&](int r) FW_INLINED { add(evens, odds, load(reinterpret_cast<const Word*>(rows[r]) + c)); });
      lanes[2 * (c / N)] = evens, lanes[2 * (c / N) + 1] = odds;
    };
    int64_t c = 0;
    for (; c + N <= columns; c += N) take(c, [&](const Word* p) FW_INLINED { return at(p); });
    if (c < columns) take(c, [&](const Word* p) FW_INLINED { return some(p, columns - c); });
  }

  // At most as many rows as lanes hold; the sums of their columns join the totals.
  void add_rows(const char* const* rows, int64_t count, int64_t columns, Lanes* lanes, uint64_t* totals) const {
    std::fill_n(lanes, 2 * ((columns + N - 1) / N), Lanes{});
    int64_t row = 0;
    for (; row + side_by_side <= count; row += side_by_side) take_rows<side_by_side>(rows + row, columns, lanes);
    for (; row < count; ++row) take_rows<1>(rows + row, columns, lanes);
    for (int64_t c = 0; c < columns; c += N, lanes += 2) {
      Lane sums[N];
      store_vector(sums, pick<N / 2>(lanes[0], lanes[1], [](int i) { return i % 2 * (N / 2) + i / 2; }));
      store_vector(sums + N / 2, pick<N / 2>(lanes[0], lanes[1], [](int i) { return i % 2 * (N / 2) + N / 4 + i / 2; }));
      const int64_t here = std::min<int64_t>(N, columns - c);
      for (int64_t i = 0; i < here; ++i) totals[c + i] += sums[i];
    }
  }
};

// What is done with lines and rows, whatever words they are of.
struct ShortLoops {
  int64_t size;
  uint64_t least;
  bool truths;
  void (*add_lines)(const ShortLoops& loops, const char* p, int64_t stride, int64_t lines, int64_t count, int64_t ahead, uint64_t* totals);
  void (*add_rows)(const ShortLoops& loops, const char* const* rows, int64_t count, int64_t columns, char* lanes, uint64_t* totals);
};

template <class Word>
ShortLoops loops_of(bool is_signed, bool truths) {
  using Of = ShortWords<Word>;
  return {sizeof(Word), is_signed ? uint64_t{1} << (Of::bits - 1) : 0, truths,
          [](const ShortLoops& loops, const char* p, int64_t stride, int64_t lines, int64_t count, int64_t ahead, uint64_t* totals) {
            const Of words(loops.least, loops.truths);
            for (; lines; --lines, p += stride) *totals++ += words.line_total(reinterpret_cast<const Word*>(p), count, ahead);
          },
          [](const ShortLoops& loops, const char* const* rows, int64_t count, int64_t columns, char* lanes, uint64_t* totals) {
            Of(loops.least, loops.truths).add_rows(rows, count, columns, reinterpret_cast<typename Of::Lanes*>(lanes), totals);
          }};
}

bool is_short(Dtype dtype) { return dtype == Dtype::boolean || (!is_float(dtype) && item_size(dtype) < 4) || dtype == Dtype::uint32; }

ShortLoops loops_for(Dtype dtype) {
  const bool truths = dtype == Dtype::boolean, is_signed = !truths && dtype < Dtype::uint8;
  switch (item_size(dtype)) {
    case 1: return loops_of<std::uint8_t>(is_signed, truths);
    case 2: return loops_of<std::uint16_t>(is_signed, truths);
    default: return loops_of<std::uint32_t>(is_signed, truths);
  }
}

class ShortSums {
  const ReducePlan& plan_;
  const FinishTotals finish_;
  const ShortLoops loops_;
  const Axis& kept_;
  const int64_t size_, ahead_;
  std::atomic<bool> fits_{true};

 public:
  ShortSums(const ReducePlan& plan, FinishTotals finish)
      : plan_(plan),
        finish_(finish),
        loops_(loops_for(plan.source.dtype)),
        kept_(innermost_kept(plan)),
        size_(loops_.size),
        ahead_(plan.count * plan.outputs * size_ > (3 << 19) ? sequence_prefetch_distance() : 0) {}

  bool run() {
    if (plan_.shape == Shape::rows) add_rows();
    else add_columns();
    return fits_;
  }

 private:
  Cursor place(int rank, int64_t position) const { return Cursor(plan_.kept, rank, plan_.source.x, nullptr, position); }

  // There is room beyond them.
  void finish(uint64_t* totals, int64_t count, char* out, int64_t stride) {
    const uint64_t below = loops_.least * static_cast<uint64_t>(plan_.count);
    for (int64_t i = 0; i < count; ++i) totals[i] -= below;
    std::fill_n(totals + count, beyond, 0);
    if (!finish_(reinterpret_cast<const int64_t*>(totals), count, out, stride)) fits_.store(false, std::memory_order_relaxed);
  }

  static void join(char* tile, const char* parts, int64_t chunks, int64_t columns, int64_t apart) {
    auto* sums = reinterpret_cast<uint64_t*>(tile);
    const auto* part = reinterpret_cast<const uint64_t*>(parts);
    std::copy_n(part, columns, sums);
    for (int64_t chunk = 1; chunk < chunks; ++chunk) {
      part += apart;
      for (int64_t c = 0; c < columns; ++c) sums[c] += part[c];
    }
  }

  // Elements first..last - 1 of what each of so many neighbouring outputs folds.
  void add_lines(const char* x, int64_t outputs, int64_t first, int64_t last, uint64_t* totals) const {
    std::fill_n(totals, outputs, 0);
    Cursor from(plan_.fold, plan_.fold_rank, x, nullptr, first);
    for (int64_t some; first < last; first += some, from.advance(some)) {
      some = std::min(last - first, from.left_in_line());
      loops_.add_lines(loops_, from.x, kept_.x, outputs, some, ahead_, totals);
    }
  }

  void add_rows() {
    const Units units{plan_.outputs, plan_.count * size_, (plan_.count + block - 1) / block, sizeof(uint64_t)};
    if (units.are_whole(plan_)) {
      return divide(plan_, units.count, units.bytes, [&](int64_t first, int64_t last) {
        constexpr int64_t most = 128;
        uint64_t totals[most + beyond];
        Cursor at = place(plan_.kept_rank, first);
        for (int64_t some; first < last; first += some, at.advance(some)) {
          some = std::min({most, last - first, at.left_in_line()});
          add_lines(at.x, some, 0, plan_.count, totals);
          finish(totals, some, plan_.sink.out + at.out, kept_.out);
        }
      });
    }
    units.fold_each(plan_,
                    [&](int64_t unit, int64_t first, int64_t last, char* tile) {
                      add_lines(place(plan_.kept_rank, unit).x, 1, first * block, std::min(plan_.count, last * block), reinterpret_cast<uint64_t*>(tile));
                    },
                    [](int64_t, char* tile, const char* parts, int64_t chunks) { join(tile, parts, chunks, 1, 1); },
                    [&](int64_t unit, char* tile) {
                      uint64_t totals[1 + beyond] = {*reinterpret_cast<const uint64_t*>(tile)};
                      finish(totals, 1, plan_.sink.out + place(plan_.kept_rank, unit).out, 0);
                    });
  }

  // Strips of columns; of narrow ones that adjoin, several rows are one.
  void add_columns() {
    const int64_t columns = kept_.size, rows = plan_.count;
    const bool adjoin = plan_.fold_rank == 1 && plan_.fold[0].x == columns * size_;
    const int64_t together = adjoin && columns < narrow ? std::clamp<int64_t>(some_columns / columns, 1, std::max<int64_t>(rows / least_row, 1)) : 1;
    const int64_t width = columns * together, strip = std::min(width, strip_columns), strips = (width + strip - 1) / strip;
    const int64_t at_once = rows_at_once * together, rank = plan_.kept_rank - 1;
    const auto fold = [&](int64_t unit, int64_t first, int64_t last, char* tile) {
      const int64_t column = unit % strips * strip, here = std::min(strip, width - column), end = std::min(rows, last * at_once);
      auto* totals = reinterpret_cast<uint64_t*>(tile);
      std::fill_n(totals, strip, 0);
      const Room lanes((strip * size_ + vector_bytes) * 2);
      Cursor from(plan_.fold, plan_.fold_rank, place(rank, unit / strips).x + column * size_, nullptr, first * at_once);
      const char* at[rows_at_once];
      for (int64_t row = first * at_once, some; row < end; row += some * together) {
        some = std::min(rows_at_once, (end - row) / together);
        if (!some) {  // fewer rows than are taken together
          at[0] = from.x;
          loops_.add_rows(loops_, at, 1, (end - row) * columns, lanes.begin(), totals);
          break;
        }
        for (int64_t r = 0; r < some; ++r, from.advance(together)) at[r] = from.x;
        loops_.add_rows(loops_, at, some, here, lanes.begin(), totals);
      }
    };
    const auto finish_strip = [&](int64_t unit, char* tile) {
      const int64_t column = unit % strips * strip, here = std::min(strip, width - column) / together;
      auto* totals = reinterpret_cast<uint64_t*>(tile);
      for (int64_t t = 1; t < together; ++t) {
        for (int64_t c = 0; c < columns; ++c) totals[c] += totals[t * columns + c];
      }
      finish(totals, here, plan_.sink.out + place(rank, unit / strips).out + column * kept_.out, kept_.out);
    };
    const int64_t tile = strip + beyond;
    Units{plan_.outputs / columns * strips, rows * strip / together * size_, (rows + at_once - 1) / at_once, tile * int64_t{sizeof(uint64_t)}}
        .fold_each(plan_, fold, [&](int64_t, char* all, const char* parts, int64_t chunks) { join(all, parts, chunks, strip, tile); }, finish_strip);
  }
};

}  // namespace

bool adds_short(const ReducePlan& plan) {
  if (!is_short(plan.source.dtype) || plan.source.swapped || plan.source.mask || plan.company || !plan.fold_rank) return false;
  const int64_t size = item_size(plan.source.dtype);
  const Axis &kept = innermost_kept(plan), &fold = plan.fold[plan.fold_rank - 1];
  if (plan.shape == Shape::rows) return fold.x == size && fold.size >= least_line;
  return kept.x == size && (kept.size >= least_row || (plan.fold_rank == 1 && fold.x == kept.size * size));
}

bool add_short(const ReducePlan& plan, FinishTotals finish) { return ShortSums(plan, finish).run(); }

}  // namespace foldwise::FOLDWISE_ISA
