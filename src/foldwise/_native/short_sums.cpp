// Compiled once per ISA, as what it calls is.
#include "short_sums.h"

#include <atomic>

#include "lines.h"

namespace foldwise::FOLDWISE_ISA {

namespace {

constexpr int64_t block = 16384;                      // elements of lines that threads may share
constexpr int64_t rows_at_once = 256;                 // of columns: as many bytes as lanes hold
constexpr int64_t narrow = 512, some_columns = 1024;  // rows that are shorter are taken several at a time, so wide,
constexpr int64_t least_taken = 64;                   // but so often that what they come to is little
constexpr int64_t least_line = 48, least_row = 16;    // elements; fewer are converted in as little time,
constexpr int64_t fewest_rows = 4;                    // and so are fewer rows
constexpr int64_t side_by_side = 4;                   // rows

// Words by twos: every second one, and those between, each in lanes twice as wide, which hold 256 bytes before they become wider
// again, or 65,536 words of two; longer ones need not. They are added without signs: of signed ones, how far they are above the
// least; of truths, 0 or 1.
template <class Word>
struct ShortWords {
  using Lane = typename WordOf<2 * sizeof(Word)>::type;
  using Words = typename VectorOf<Word, native<Word>>::type;
  using Lanes = typename VectorOf<Lane, native<Lane>>::type;
  using Long = typename VectorOf<uint64_t, native<uint64_t>>::type;
  static constexpr int N = native<Word>, bits = 8 * sizeof(Word);
  static constexpr int64_t held = int64_t{1} << std::min(bits, 16);
  // Of so many elements vectors begin on a line of cache, if they are as long as one: shorter ones gain less than their ends take.
  static constexpr bool on_lines = vector_bytes == line_bytes;
  static constexpr int64_t least_line_on_lines = 32 * N, least_row_on_lines = 8 * N;

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
  FW_OUTLINE Lanes some(const Word* p, int64_t count) const { return of(load_some<Word, N>(p, static_cast<int>(count), Word{0}).v[0]); }

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

  // Elements before the next line of cache, of what begins there.
  static int64_t before_line(const void* p) { return static_cast<int64_t>(-reinterpret_cast<std::uintptr_t>(p) % line_bytes / sizeof(Word)); }

  // All of a line, while what lies so far ahead is asked for. First what is left over at its ends, so that the vectors of a long one do not lie
  // on two lines of cache each.
  FW_INLINE uint64_t line_total(const Word* p, int64_t count, int64_t ahead) const {
    Long all{};
    Lanes evens{}, odds{};
    int64_t absent = 0;
    const auto add_some = [&](const Word* from, int64_t so_many) FW_INLINED {
      if (!so_many) return;
      add(evens, odds, some(from, so_many));
      absent += N - so_many;
    };
    const int64_t before = on_lines && count >= least_line_on_lines ? before_line(p) : 0;
    add_some(p, before);
    p += before, count -= before;
    add_some(p + count / N * N, count % N);
    int64_t vectors = count / N, room = held - 2;
    do {
      int64_t here = std::min(vectors, std::exchange(room, held));
      vectors -= here;
      const auto next = [&]() FW_INLINED {
        if (ahead) ask_for(p, ahead);
        add(evens, odds, at(p));
        p += N;
      };
      for (; here >= 4; here -= 4) repeat<4>([&](int) FW_INLINED { next(); });
      for (; here; --here) next();
      all += lengthened(std::exchange(evens, Lanes{})) + lengthened(std::exchange(odds, Lanes{}));
    } while (vectors);
    return summed(Pack<uint64_t, native<uint64_t>>{{all}}) - uint64_t{least[0]} * static_cast<uint64_t>(absent);
  }

  // The first columns, if there are some before whole vectors, are a vector of their own.
  template <int R>
  FW_INLINE void take_rows(const char* const* rows, int64_t before, int64_t columns, Lanes* lanes) const {
    const auto take = [&](int64_t c, auto&& load) FW_INLINED {
      Lanes evens = lanes[0], odds = lanes[1];
      repeat<R>([&](int r) FW_INLINED { add(evens, odds, load(reinterpret_cast<const Word*>(rows[r]) + c)); });
      *lanes++ = evens, *lanes++ = odds;
    };
    if (before) take(0, [&](const Word* p) FW_INLINED { return some(p, before); });
    int64_t c = before;
    for (; c + N <= columns; c += N) take(c, [&](const Word* p) FW_INLINED { return at(p); });
    if (c < columns) take(c, [&](const Word* p) FW_INLINED { return some(p, columns - c); });
  }

  // At most as many rows as lanes hold; the sums of their columns join the totals.
  void add_rows(const char* const* rows, int64_t count, int64_t columns, Lanes* lanes, uint64_t* totals) const {
    const bool alike = on_lines && columns >= least_row_on_lines && count > 1 && (rows[1] - rows[0]) % line_bytes == 0;
    const int64_t before = alike ? before_line(rows[0]) : 0;
    std::fill_n(lanes, 2 * ((before > 0) + (columns - before + N - 1) / N), Lanes{});
    int64_t row = 0;
    for (; row + side_by_side <= count; row += side_by_side) take_rows<side_by_side>(rows + row, before, columns, lanes);
    for (; row < count; ++row) take_rows<1>(rows + row, before, columns, lanes);
    for (int64_t c = 0, here; c < columns; c += here, lanes += 2) {
      here = c < before ? before : std::min<int64_t>(N, columns - c);
      Lane sums[N];
      store_vector(sums, pick<N / 2>(lanes[0], lanes[1], [](int i) { return i % 2 * (N / 2) + i / 2; }));
      store_vector(sums + N / 2, pick<N / 2>(lanes[0], lanes[1], [](int i) { return i % 2 * (N / 2) + N / 4 + i / 2; }));
      constexpr int W = native<uint64_t>;
      if (here == N) {
#pragma GCC unroll 1
        for (int i = 0; i < N; i += W) store(totals + c + i, load<uint64_t, W>(totals + c + i) + load<uint64_t, W>(sums + i));
      } else {
        for (int64_t i = 0; i < here; ++i) totals[c + i] += sums[i];
      }
    }
  }
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

ShortLoops loops_for(Dtype dtype) {
  const bool truths = dtype == Dtype::boolean, is_signed = !truths && dtype < Dtype::uint8;
  switch (item_size(dtype)) {
    case 1: return loops_of<std::uint8_t>(is_signed, truths);
    case 2: return loops_of<std::uint16_t>(is_signed, truths);
    default: return loops_of<std::uint32_t>(is_signed, truths);
  }
}

// All that have no kernel of their own that adds them.
bool is_short(Dtype dtype) { return dtype == Dtype::boolean || (!is_float(dtype) && item_size(dtype) < 4) || dtype == Dtype::uint32; }

}  // namespace

bool ShortTotals::suit(const ReducePlan& plan) {
  if (!is_short(plan.source.dtype) || plan.source.swapped || plan.source.mask || !plan.fold_rank) return false;
  const int64_t size = item_size(plan.source.dtype);
  const Axis &kept = innermost_kept(plan), &fold = plan.fold[plan.fold_rank - 1];
  if (plan.shape == Shape::rows) return fold.x == size && fold.size >= least_line;
  const bool suits = kept.size >= least_row || (plan.fold_rank == 1 && fold.x == kept.size * size);
  return kept.x == size && suits && plan.count >= fewest_rows && kept.size * plan.count >= least_line;
}

ShortTotals::ShortTotals(const ReducePlan& plan) : plan_(plan), loops_(loops_for(plan.source.dtype)) {}

void ShortTotals::of_lines(const char* x, int64_t lines, int64_t apart, int64_t first, int64_t last, bool from_memory, uint64_t* totals) const {
  // Zen 3 and 4 read what takes so little time faster if nobody asks for it.
  const int64_t ahead = from_memory && !lines_come_in_pairs && !asks_for_what_is_near() ? prefetch_distance : 0;
  std::fill_n(totals, lines, -loops_.least * static_cast<uint64_t>(last - first));
  Cursor from(plan_.fold, plan_.fold_rank, x, nullptr, first);
  for (int64_t some; first < last; first += some, from.advance(some)) {
    some = std::min(last - first, from.left_in_line());
    loops_.add_lines(loops_, from.x, apart, lines, some, ahead, totals);
  }
}

void ShortTotals::of_rows(const char* x, int64_t columns, int64_t first, int64_t last, uint64_t* totals) const {
  const int64_t rows = last - first;
  const bool adjoin = plan_.fold_rank == 1 && plan_.fold[0].x == columns * loops_.size;
  const int64_t together = adjoin && columns < narrow ? std::clamp<int64_t>(some_columns / columns, 1, std::max<int64_t>(rows / least_taken, 1)) : 1;
  const int64_t width = columns * together;
  std::fill_n(totals, columns, -loops_.least * static_cast<uint64_t>(rows));
  uint64_t wide[some_columns];
  uint64_t* const all = together > 1 ? wide : totals;
  if (together > 1) std::fill_n(wide, width, 0);
  const Room lanes((width * loops_.size + 2 * vector_bytes) * 2);  // the ends are vectors of their own
  Cursor from(plan_.fold, plan_.fold_rank, x, nullptr, first);
  const char* at[rows_at_once];
  const auto add = [&](int64_t some, int64_t here) { loops_.add_rows(loops_, at, some, here, lanes.begin(), all); };
  for (int64_t left = rows / together; left;) {
    const int64_t some = std::min(rows_at_once, left);
    for (int64_t r = 0; r < some; ++r, from.advance(together)) at[r] = from.x;
    add(some, width);
    left -= some;
  }
  if (const int64_t rest = rows % together) {
    at[0] = from.x;
    add(1, rest * columns);
  }
  for (const uint64_t* some = wide; together > 1 && some < wide + width; some += columns) {
    for (int64_t c = 0; c < columns; ++c) totals[c] += some[c];
  }
}

namespace {

constexpr int64_t strip_columns = 2048, least_columns = 256;  // whose lanes stay in the first cache; that are worth a strip
constexpr int64_t beyond = native<int64_t>;                   // places behind the results, of which whole vectors are loaded

struct ShortSums : ShortTotals {
  const ReducePlan& plan;
  const FinishTotals end;
  const Axis& kept;
  const int64_t size;
  const bool from_memory;
  std::atomic<bool> fits{true};

  ShortSums(const ReducePlan& p, FinishTotals finish)
      : ShortTotals(p),
        plan(p),
        end(finish),
        kept(innermost_kept(p)),
        size(item_size(p.source.dtype)),
        from_memory(is_from_memory(p.count * p.outputs * size)) {}

  Cursor place(int rank, int64_t position) const { return Cursor(plan.kept, rank, plan.source.x, nullptr, position); }

  // There is room beyond them.
  void finish(uint64_t* totals, int64_t count, char* out, int64_t stride) {
    std::fill_n(totals + count, beyond, 0);
    if (!end(reinterpret_cast<const int64_t*>(totals), count, out, stride)) fits.store(false, std::memory_order_relaxed);
  }

  // Chunks have so many totals each, `apart` from each other.
  static void join(char* tile, const char* parts, int64_t chunks, int64_t columns, int64_t apart) {
    auto* sums = reinterpret_cast<uint64_t*>(tile);
    const auto* part = reinterpret_cast<const uint64_t*>(parts);
    std::copy_n(part, columns, sums);
    for (int64_t chunk = 1; chunk < chunks; ++chunk) {
      part += apart;
      for (int64_t c = 0; c < columns; ++c) sums[c] += part[c];
    }
  }

  void add_rows() {
    const Units units{plan.outputs, plan.count * size, (plan.count + block - 1) / block, sizeof(uint64_t)};
    if (units.are_whole(plan)) {
      return divide(plan, units.count, units.bytes, [&](int64_t first, int64_t last) {
        constexpr int64_t most = 128;
        uint64_t totals[most + beyond];
        Cursor at = place(plan.kept_rank, first);
        for (int64_t some; first < last; first += some, at.advance(some)) {
          some = std::min({most, last - first, at.left_in_line()});
          of_lines(at.x, some, kept.x, 0, plan.count, from_memory, totals);
          finish(totals, some, plan.sink.out + at.out, kept.out);
        }
      });
    }
    units.fold_each(plan,
                    [&](int64_t unit, int64_t first, int64_t last, char* tile) {
                      of_lines(place(plan.kept_rank, unit).x, 1, 0, first * block, std::min(plan.count, last * block), from_memory,
                               reinterpret_cast<uint64_t*>(tile));
                    },
                    [](int64_t, char* tile, const char* parts, int64_t chunks) { join(tile, parts, chunks, 1, 1); },
                    [&](int64_t unit, char* tile) {
                      uint64_t totals[1 + beyond] = {*reinterpret_cast<const uint64_t*>(tile)};
                      finish(totals, 1, plan.sink.out + place(plan.kept_rank, unit).out, 0);
                    });
  }

  // As wide as may be, unless threads that cannot share rows would have no strip; all alike, in whole lines of cache.
  int64_t columns_of_strip(int64_t block_rows) const {
    const int64_t lines = plan.outputs / kept.size;
    const int64_t threads = plan.count > block_rows && !plan.company ? 1 : threads_for(plan.count * plan.outputs * size);
    const int64_t most = std::max<int64_t>(kept.size / least_columns, 1);
    const int64_t strips = std::max((kept.size + strip_columns - 1) / strip_columns, std::min(most, (threads + lines - 1) / lines));
    const int64_t line = line_bytes / size, columns = (kept.size + strips - 1) / strips;
    return std::min(kept.size, (columns + line - 1) / line * line);
  }

  void add_columns() {
    const int64_t block_rows = rows_at_once * std::max<int64_t>(1, some_columns / kept.size);
    const int64_t strip = columns_of_strip(block_rows), strips = (kept.size + strip - 1) / strip, tile = strip + beyond;
    const int64_t rows = plan.count, rank = plan.kept_rank - 1;
    const auto columns_of = [&](int64_t unit) { return std::min(strip, kept.size - unit % strips * strip); };
    Units{plan.outputs / kept.size * strips, rows * strip * size, (rows + block_rows - 1) / block_rows, tile * int64_t{sizeof(uint64_t)}}.fold_each(
        plan,
        [&](int64_t unit, int64_t first, int64_t last, char* totals) {
          of_rows(place(rank, unit / strips).x + unit % strips * strip * size, columns_of(unit), first * block_rows,
                  std::min(rows, last * block_rows), reinterpret_cast<uint64_t*>(totals));
        },
        [&](int64_t unit, char* totals, const char* parts, int64_t chunks) { join(totals, parts, chunks, columns_of(unit), tile); },
        [&](int64_t unit, char* totals) {
          finish(reinterpret_cast<uint64_t*>(totals), columns_of(unit),
                 plan.sink.out + place(rank, unit / strips).out + unit % strips * strip * kept.out, kept.out);
        });
  }
};

}  // namespace

bool add_short(const ReducePlan& plan, FinishTotals finish) {
  ShortSums sums(plan, finish);
  if (plan.shape == Shape::rows) sums.add_rows();
  else sums.add_columns();
  return sums.fits;
}

}  // namespace foldwise::FOLDWISE_ISA
