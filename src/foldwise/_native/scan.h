// The one scan driver. A line is cut into segments of 1024 elements, a segment into packs of eight; each pack is scanned
// by doubling, placed on what its segment holds so far, and that on the carry of the segments before:
//   y = carry + (so far + (prefix inside the pack)).
// Every step adds one left operand to a rising right one, so a scan of non-negative numbers never falls. What may be regrouped
// goes on from segment to segment without a carry, in packs that are never less than a vector.
#pragma once
#include "exact_scan.h"
#include "scan_lines.h"
#include "short_lines.h"

namespace foldwise::FOLDWISE_ISA {

template <class F>
struct Scan : ScanLines<F> {
  FOLDWISE_SCAN_WORK(F)
  using Lines = ScanLines<F>;
  using Lines::Lines, Lines::scan_lines;

  bool run() {
    const bool has_columns = plan.columns_are_closer() && plan.kept[plan.kept_rank - 1].size >= pack_size;
    if (has_columns) {
      scan_columns();
      return fits;
    }
    if (plan.kept_rank) {
      ShortLines<F> short_lines(plan);
      if (short_lines.apply()) return short_lines.run();
    }
    scan_lines();
    return fits;
  }

  // ---- columns: strips of the innermost kept axis, a pack of rows after the other

  // At most, from memory and in cache, and where there are few for the threads.
  static constexpr int64_t strip_columns = sizeof(S) < 8 ? 2048 : 1024, cached_columns = 512, least_columns = 64;

  // Rows of a pack that are taken together. Rows that lie a power of two apart share a few places of the first cache, and where a
  // vector is less than a line of it, all eight and their results would evict each other before the next vector is taken; whole
  // lines, too, where vectors lie across two of them, but floats are held up more by fewer rows.
  static constexpr bool whole_lines = vector_bytes == 64 && !(any_order<F> && sizeof(S) == 8);
  static constexpr int together = whole_lines || F::heavy ? pack_size : sizeof(S) == 8 ? 2 : 4;
  static constexpr int levels_of(int at_once) { return regroups<F> ? 0 : std::bit_width(static_cast<unsigned>(pack_size / at_once)) - 1; }

  // Whether a vector of rows asks once if there is a carry: with shorter vectors, and where more is done, it is as fast to ask for each.
  static constexpr bool asks_once = vector_bytes == 64 && !F::heavy;

  // Where rows of results begin on lines, these leave one by one, and never come to more than the first cache holds. With vectors of
  // less than a line only what need not be converted gains by it.
  static constexpr bool by_lines = !small && !F::heavy && !F::guarded && (vector_bytes == 64 || sizeof(S) == 8);

  // How far elements lie behind results, of a page: all rows are alike in that, where whole pages lie between those of results.
  static std::uintptr_t behind(const void* in, const void* out) {
    return (reinterpret_cast<std::uintptr_t>(in) - reinterpret_cast<std::uintptr_t>(out)) % page_bytes;
  }
  bool rows_are_pages_apart() const { return plan.along.out % page_bytes == 0; }

  // Whether loads would wait for such stores, as they do where the last twelve bits of both addresses are alike. Then it takes ten times
  // as long if elements lie just behind results, and short vectors are better off without lines wherever they lie.
  static constexpr std::uintptr_t under_way = 1024;
  bool holds_up(const void* in, const void* out) const {
    return rows_are_pages_apart() && (vector_bytes < 64 || behind(in, out) >= page_bytes - under_way);
  }

  // On Zen 4, whose first cache has eight such places, eight rows pages apart and results that lie there too are too many, even of whole
  // lines; and what passes the caches two rows at a time takes more than twice the time.
  static constexpr bool has_fours = vector_bytes == 64 && !small && !F::heavy;
  bool takes_fours(const void* in, const void* out) const {
    if (!lines_come_in_pairs) return false;
    if (together < 4 || streaming) return together < 4 && streaming;
    constexpr std::uintptr_t near = 256;
    return rows_are_pages_apart() && (sizeof(S) != sizeof(Out) || (behind(in, out) + under_way) % page_bytes < under_way + near);
  }

  // By how many columns the second vector of each row reaches back into the first, so that it and those behind it leave for whole
  // lines of cache: one that lies across two takes twice the time. What is in two vectors leaves the same twice, unless what it is
  // made from is gone by then.
  int64_t reach_back(const Place& at, int64_t columns) const {
    constexpr int64_t vector = W * sizeof(Out);
    const auto beyond = [](auto bytes) { return static_cast<int64_t>(bytes) & (vector - 1); };
    const bool alike = beyond(plan.along.out) == 0 && at.x != at.out && columns >= 2 * W;
    return alike ? beyond(reinterpret_cast<std::uintptr_t>(at.out)) / static_cast<int64_t>(sizeof(Out)) : 0;
  }

  void scan_columns() {
    const Axis& kept = plan.kept[plan.kept_rank - 1];
    const int64_t rows_of_lines = plan.lines / kept.size, bytes = plan.lines * plan.length * static_cast<int64_t>(sizeof(S));
    // Columns that fill vectors; those left over are a strip of their own.
    const bool fills = is_out(plan.sink.dtype) && kept.out == static_cast<int64_t>(sizeof(Out));
    const int64_t even = fills || (plan.source.direct && kept.x == static_cast<int64_t>(sizeof(S))) ? kept.size / W * W : kept.size;
    const auto strips_of = [&](int64_t width) { return (even + width - 1) / width + (even < kept.size); };
    const int64_t columns = Work::strip_width(streaming ? strip_columns : cached_columns, least_columns, threads_for(bytes, Work::worth_of_columns()),
                                              true, [&](int64_t width) { return rows_of_lines * strips_of(width); });
    const int64_t strips = strips_of(columns), units = rows_of_lines * strips;
    const int64_t unit_bytes = std::min(kept.size, columns) * plan.length * static_cast<int64_t>(sizeof(S));
    this->share_lines(units, unit_bytes, [&](int64_t first, int64_t last) {
      for (int64_t unit = first; unit < last; ++unit) {
        Place at = line(plan.kept_rank - 1, unit / strips);
        const int64_t column = std::min(unit % strips * columns, even);
        at.x += column * kept.x;
        at.out += column * kept.out;
        const int64_t some = column < even ? std::min(columns, even - column) : kept.size - even;
        const bool plain = scan_strip(at, some);
        if constexpr (F::guarded) {
          if (!plain) scan_carefully(at, some);
        }
      }
      finish_streaming();
    }, Work::worth_of_columns());
  }

  // Whether plain arithmetic was enough for it.
  bool scan_strip(const Place& at, int64_t columns) {
    const Axis& kept = plan.kept[plan.kept_rank - 1];
    constexpr int most = strip_columns / W + 1;
    const bool whole = columns % W == 0;
    const bool rows_in = plan.source.direct && kept.x == static_cast<int64_t>(sizeof(S)) && whole;
    const bool rows_out = is_out(plan.sink.dtype) && kept.out == static_cast<int64_t>(sizeof(Out)) && whole;
    const int64_t back = rows_out && !streaming ? reach_back(at, columns) : 0;
    const int64_t vectors = (columns + back + W - 1) / W, last = whole ? columns - W : (vectors - 1) * W;
    const auto column_of = [=](int64_t v) FW_INLINED { return v ? std::min(v * W - back, last) : 0; };
    const bool by_fours = has_fours && takes_fours(at.x, at.out);
    CarryOf<F, W> carries[regroups<F> ? 1 : most];  // of which these make no use
    AccOf<F, W> so_far[most];
    AccOf<F, W> waiting[std::max(1, levels_of(together))][most];  // what rows of a pack hold, for those of a later turn
    S gathered[pack_size][strip_columns + 64 / sizeof(S)];
    alignas(64) Out results[pack_size][strip_columns + 64 / sizeof(Out)];
    A wide[pack_size][strip_columns + 64 / sizeof(A)];
    for (auto& row : gathered) std::fill(row + columns, row + last + W, reader.absent);
    write_identities(at.out, kept.out, columns);
    Judge judge{plan.finish};
    for (int64_t begin = 0; begin < count; begin += segment_size) {
      const int64_t end = std::min(count, begin + segment_size);
      if constexpr (F::guarded) {
        if (!std::all_of(carries, carries + vectors, [](const auto& carry) { return carry.plain(); })) return false;
        clear_flags();
      }
      if (!begin || !regroups<F>) std::fill_n(so_far, vectors, absence<F, W>());
      for (int64_t row = begin; row < end; row += pack_size) {
        const int64_t rows = std::min<int64_t>(pack_size, end - row);
        const S* in[pack_size];
        Out* direct[pack_size];
        char* out = at.out + (row + plan.shifted) * plan.along.out;
        for (int64_t r = 0; r < pack_size; ++r) {
          const char* x = at.x + (row + std::min(r, rows - 1)) * plan.along.x;
          in[r] = reinterpret_cast<const S*>(x);
          if (!rows_in || r >= rows) in[r] = gathered[r];
          if (!rows_in && r < rows) reader(gathered[r], x, nullptr, kept, columns);
          direct[r] = streaming || r >= rows ? results[r] : reinterpret_cast<Out*>(out + r * plan.along.out);
        }
        constexpr int64_t line = std::max<int64_t>(line_bytes, W * sizeof(Out)), in_line = line / (W * sizeof(Out));
        const bool lined = by_lines && streaming && rows_out && rows == pack_size && columns * sizeof(Out) % line == 0 &&
                           (reinterpret_cast<std::uintptr_t>(out) | plan.along.out) % line_bytes == 0 && !holds_up(in[0], out);
        const auto leave = [&](int64_t v, int first, int end) FW_INLINED {
          char* to = out + (v + 1) * W * sizeof(Out) - line + first * plan.along.out;
          for (int r = first; r < end; ++r, to += plan.along.out) {
            stream_lines<line>(to, reinterpret_cast<const char*>(results[r]));
          }
        };
        typename VectorOf<bits_of<A>, W>::type odd{};  // where the last row holds a NaN, as it does after any other
        // A pack of eight rows whose results leave as they are asks nothing of each; any other, `few`, does.
        const auto scan_turn = [&](auto at_once, auto turn, auto ahead, auto few) FW_INLINED {
          constexpr int some = at_once, turns = pack_size / some;
          const int t = turn, first = t * some;
          constexpr int levels = levels_of(some);
          const int64_t present = few ? std::min<int64_t>(some, rows - first) : some;
          const auto each_row = [&](auto&& visit) FW_INLINED {
            repeat<some>([&](int r) FW_INLINED {
              if (!few || r < present) visit(r);
            });
          };
          for (int64_t v = 0; v < vectors && present > 0; ++v) {
            AccOf<F, W> acc[some];
            each_row([&](int r) FW_INLINED {
              const S* here = in[first + r] + column_of(v);
              // Next are the rows below; of a few that are the last it is the strip beside.
              if (ahead && std::is_same_v<S, A>) ask_for(here, pack_size * plan.along.x);
              else if (ahead) ask_second_for(here, pack_size * plan.along.x);
              if (few && rows_in && rows < pack_size) ask_second_for(here + cached_columns);
              acc[r] = F::start(load<A, W>(here));
            });
            if constexpr (!regroups<F>) prefix_of_rows<F, W, some>(acc, present);
            repeat<levels>([&](int l) FW_INLINED {
              constexpr auto bits_below = [](int level) { return (1 << level) - 1; };
              if (t >> l & 1) {
                each_row([&](int r) FW_INLINED { acc[r] = F::merge(waiting[l][v], acc[r]); });
              } else if ((t & bits_below(l)) == bits_below(l) && (!few || present == some)) {
                waiting[l][v] = acc[some - 1];
              }
            });
            each_row([&](int r) FW_INLINED { acc[r] = merged_aside<F, W>(regroups<F> && r ? acc[r - 1] : so_far[v], acc[r]); });
            if (regroups<F> || t + 1 == turns) so_far[v] = acc[few ? present - 1 : some - 1];
            const int64_t column = column_of(v), to = lined ? v % in_line * W : column;
            const auto results_are = [&](auto&& result) FW_INLINED {
              each_row([&](int r) FW_INLINED {
                const Pack<A, W> y = result(acc[r]);
                if (first + r == (few ? rows : pack_size) - 1) odd |= y.v[0] != y.v[0];
                if (!few || rows_out) store(direct[first + r] + to, y);
                else store(&wide[first + r][column], y);
              });
            };
            const auto carried = [&](const auto& local) FW_INLINED { return carries[v].template emit<F>(local, judge); };
            const auto alone = [&](const auto& local) FW_INLINED { return Work::template alone<F, W>(local, judge); };
            if constexpr (regroups<F>) results_are(alone);
            else if constexpr (!asks_once) results_are([&](const auto& local) FW_INLINED { return begin ? carried(local) : alone(local); });
            else if (begin) results_are(carried);
            else results_are(alone);
            if (!few && lined && (v + 1) % in_line == 0) leave(v, first, first + some);
          }
        };
        const auto scan_rows = [&](auto at_once, auto ahead, auto few) FW_INLINED {
          constexpr int turns = pack_size / at_once;
          if constexpr (regroups<F>) {
#pragma GCC unroll 1
            for (int t = 0; t < turns; ++t) scan_turn(at_once, t, ahead, few);
          } else {
            repeat<turns>([&](int t) FW_INLINED { scan_turn(at_once, t, ahead, few); });
          }
        };
        constexpr std::integral_constant<int, together> usual;
        constexpr std::integral_constant<int, 4> four;
        if constexpr (F::heavy) scan_rows(usual, std::true_type{}, std::true_type{});  // what is done to an element takes all of the time
        else if (rows < pack_size || !rows_out) scan_rows(usual, std::false_type{}, std::true_type{});
        else if (by_fours) { if constexpr (has_fours) scan_rows(four, std::bool_constant<F::guarded || (together < four)>{}, std::false_type{}); }
        else if (F::guarded || small || streaming) scan_rows(usual, std::true_type{}, std::false_type{});  // the others have code enough as it is
        else scan_rows(usual, std::false_type{}, std::false_type{});
        for (int64_t r = 0; lanes_where(odd) && r < rows; ++r) {
          if (rows_out) make_canonical(lined ? reinterpret_cast<Out*>(out + r * plan.along.out) : direct[r], columns);
          else make_canonical(wide[r], columns);
        }
        for (int64_t r = 0; r < rows; ++r) {
          if (!rows_out) scatter(out + r * plan.along.out, kept.out, wide[r], columns);
          else if (streaming && !lined) stream(out + r * plan.along.out, reinterpret_cast<const char*>(results[r]), columns * sizeof(Out));
        }
      }
      settle(so_far);
      if (spoilt<F>()) return false;
      for (int64_t v = 0; !regroups<F> && end < count && v < vectors; ++v) carries[v].advance(F::lift(so_far[v]));
    }
    note(judge.fits);
    return true;
  }

  // Columns whose results leave the range of plain arithmetic somewhere: a few vectors of them at a time.
  FW_RARELY void scan_carefully(const Place& at, int64_t columns) {
    constexpr int64_t most_vectors = 64 / sizeof(S), most = most_vectors * W;
    const Axis& kept = plan.kept[plan.kept_rank - 1];
    S rows[pack_size][most];
    A results[pack_size][most];
    Judge judge{plan.finish};
    finish_streaming();
    write_identities(at.out, kept.out, columns);
    for (auto& row : rows) std::fill_n(row, most, reader.absent);
    for (int64_t column = 0; column < columns; column += most) {
      const int64_t some = std::min(most, columns - column), vectors = (some + W - 1) / W;
      const char* x = at.x + column * kept.x;
      char* out = at.out + column * kept.out + plan.shifted * plan.along.out;
      CarryOf<F, W> carries[most_vectors];
      AccOf<C, W> so_far[most_vectors];
      std::fill_n(so_far, vectors, absence<C, W>());
      for (int64_t first = 0; first < count; first += pack_size) {
        const int64_t present = std::min<int64_t>(pack_size, count - first);
        for (int64_t r = 0; r < present; ++r) reader(rows[r], x + (first + r) * plan.along.x, nullptr, kept, some);
        for (int64_t v = 0; v < vectors; ++v) {
          if (first && first % segment_size == 0) {
            carries[v].advance(so_far[v]);
            so_far[v] = absence<C, W>();
          }
          AccOf<C, W> acc[pack_size];
          prefixes_of_rows(&rows[0][v * W], most, present, acc);
          for (int64_t r = 0; r < present; ++r) {
            acc[r] = merged<C, W>(so_far[v], acc[r]);
            store(&results[r][v * W], canonical(carries[v].template emit<C>(acc[r], judge)));
          }
          so_far[v] = acc[present - 1];
        }
        for (int64_t r = 0; r < present; ++r) scatter(out + (first + r) * plan.along.out, kept.out, results[r], some);
      }
    }
  }

  // What up to eight rows, `stride` apart, hold by themselves; in plain arithmetic, where a careful one has nothing to add.
  static FW_INLINE void prefixes_of_rows(const S* rows, int64_t stride, int64_t present, AccOf<C, W>* acc) {
    Pack<A, W> x[pack_size];
    bool moderate = true;
    for (int64_t r = 0; r < present; ++r) {
      x[r] = load<A, W>(rows + r * stride);
      moderate = moderate && C::is_moderate(x[r]);
    }
    if (moderate) {
      AccOf<F, W> plain[pack_size];
      for (int64_t r = 0; r < present; ++r) plain[r] = F::start(x[r]);
      prefix_of_rows<F, W, pack_size>(plain, present);
      for (int64_t r = 0; r < present; ++r) acc[r] = F::lift(plain[r]);
    } else {
      for (int64_t r = 0; r < present; ++r) acc[r] = C::start(x[r]);
      prefix_of_rows<C, W, pack_size>(acc, present);
    }
  }
};

template <class F>
bool scan(const ScanPlan& plan) {
  const ReleasesVectors afterwards;
  if constexpr (is_exact<F>) return ExactScan<F>(plan).run();
  else return Scan<F>(plan).run();
}

// The scan of a family's elements, if they have one.
template <class Family, class S>
bool (*scan_of())(const ScanPlan&) {
  if constexpr (Family::template is_scanned<S>) return scan<typename Family::template Scanned<S>>;
  else return nullptr;
}

}  // namespace foldwise::FOLDWISE_ISA
