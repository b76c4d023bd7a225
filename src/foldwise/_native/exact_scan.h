// Exact scans: every prefix rounded once. Inside a segment prefixes are sums of parts, proved exact by the flags; what came
// before is three doubles; and the two together are rounded by error-free sums. Where that is not certain, a segment is
// walked again in a Total, element by element.
#pragma once
#include "exact_reduce.h"
#include "scan_work.h"

namespace foldwise::FOLDWISE_ISA {

// What lines hold so far: numbers that do not overlap, or a Total where three are too few.
template <int N>
struct Held {
  Pack<double, N> first = splat<double, N>(0.0), second = first, third = first;

  // More parts of the same lines; false where three numbers cannot hold them.
  template <class Acc>
  FW_INLINE bool take(const Acc& more) {
    auto lost = splat<double, N>(0.0);
    std::apply([&](const auto&... part) FW_INLINED { (take_part(part, lost), ...); }, more.members());
    Pack<double, N> rest;
    second = two_sum<N>(second, third, third);
    first = two_sum<N>(first, second, rest);
    second = two_sum<N>(rest, third, third);
    return all_zero(lost) && all_zero(first - first);
  }
  static FW_INLINE bool all_zero(const Pack<double, N>& a) {
    bool zero = true;
    for (int i = 0; i < N; ++i) zero &= a[i] == 0;
    return zero;
  }

 private:
  FW_INLINE void take_part(const Pack<double, N>& part, Pack<double, N>& lost) {
    Pack<double, N> error;
    first = two_sum<N>(first, part, error);
    second = two_sum<N>(second, error, error);
    third = two_sum<N>(third, error, error);
    lost = each([](auto a, auto b) { return a != 0 ? a : b; }, lost, error);
  }
};

template <class F>
struct ExactScan : ScanWork<F> {
  FOLDWISE_SCAN_WORK(F)
  using ScanWork<F>::ScanWork;
  static constexpr int parts = F::parts;
  static constexpr int64_t strip = 64, strip_rows = 32 / parts, short_line = 64;
  const bool narrower = plan.sink.dtype != Dtype::float64;

  bool run() {
    if (plan.kept_rank && plan.kept[plan.kept_rank - 1].size >= W && columns_suit()) scan_columns();
    else scan_lines();
    return true;
  }

 private:
  bool columns_suit() const {
    const Axis& inner = plan.kept[plan.kept_rank - 1];
    return !plan.nest_rank && (count < short_line || std::abs(inner.x) < std::abs(plan.along.x));
  }

  // ---- one prefix

  // How much was held before: nothing, one number, or more.
  enum class Before { nothing, one, more };
  template <int N>
  static Before before(const Held<N>* held, int64_t count) {
    Before most = Before::nothing;
    for (int64_t i = 0; i < count; ++i) {
      if (!Held<N>::all_zero(held[i].second) || !Held<N>::all_zero(held[i].third)) return Before::more;
      if (!Held<N>::all_zero(held[i].first)) most = Before::one;
    }
    return most;
  }
  template <class Work>
  static FW_INLINE void with(Before before, Work&& work) {
    if (before == Before::nothing) work(std::integral_constant<Before, Before::nothing>{});
    else if (before == Before::one) work(std::integral_constant<Before, Before::one>{});
    else work(std::integral_constant<Before, Before::more>{});
  }

  // What was held and what was added since, as the nearest double and what that lacks; `unknown` is what nobody computed.
  template <Before before, int N>
  static FW_INLINE Pack<double, N> nearest(const Held<N>& held, const AccOf<F, N>& since, Pack<double, N>& lacks,
                                           Pack<double, N>& unknown) {
    Pack<double, N> b, e, g, d;
    lacks = unknown = splat<double, N>(0.0);
    if constexpr (parts == 1) {
      if constexpr (before == Before::nothing) return since.total;
      if constexpr (before == Before::one) return two_sum<N>(held.first, since.total, lacks);
      const auto a = two_sum<N>(held.first, since.total, b);
      d = two_sum<N>(b, held.second, e);
      unknown = e + held.third;
      return two_sum<N>(a, d, lacks);
    } else {
      if constexpr (before == Before::nothing) return two_sum<N>(since.high, since.low, lacks);
      const auto a = two_sum<N>(held.first, since.high, b);
      if constexpr (before == Before::one) d = since.low;
      else d = two_sum<N>(since.low, held.second, e);
      const auto f = two_sum<N>(b, d, g);
      unknown = magnitude(g);
      if constexpr (before == Before::more) unknown = unknown + magnitude(e) + magnitude(held.third);
      return two_sum<N>(a, f, lacks);
    }
  }

  // The same, rounded; `unsure` is no longer zero where that may not be the whole truth.
  template <Before before, int N>
  FW_INLINE Pack<double, N> rounded(const Held<N>& held, const AccOf<F, N>& since, Pack<double, N>& unsure) const {
    Pack<double, N> lacks, unknown;
    const auto y = nearest<before, N>(held, since, lacks, unknown);
    const auto doubt = [&](const auto& where) FW_INLINED {
      unsure = each([](auto u, auto w) { return w != 0 ? w : u; }, unsure, where);
    };
    const auto settled = y + splat<double, N>(0.0);  // a zero is +0
    if constexpr (parts == 1) {
      if constexpr (before == Before::more) doubt(unknown);
      if constexpr (before == Before::nothing) return settled;
      if (!narrower) return settled;
      if constexpr (std::is_same_v<S, float>) {
        if (plan.sink.dtype == Dtype::float32) {
          // Only half way between two floats does it matter what is lacking.
          doubt(each([](auto v, auto lack) {
            typedef typename VectorOf<int64_t, sizeof(v) / 8>::type Bits;
            return (std::bit_cast<Bits>(v) & 0x1fffffff) == 0x10000000 ? lack : decltype(v){};
          }, y, lacks));
          return settled;
        }
      }
      // A sum that a float16 can be has no more bits than a double.
      if (std::is_same_v<S, half> && plan.sink.dtype == Dtype::float16) return settled;
      return made_odd<N>(settled, lacks);
    } else {
      if (narrower) {
        doubt(unknown);
        return made_odd<N>(settled, lacks);
      }
      // Is y nearest, whatever is unknown? Twice as much, and a little more, must not move it.
      if constexpr (before != Before::nothing) {
        const auto reach = magnitude(lacks) * splat<double, N>(1 + 0x1p-50) + (unknown + unknown);
        const auto moved = magnitude((y + reach) - y) + magnitude((y - reach) - y);
        doubt(each([](auto m, auto u) { return m != 0 ? u : m; }, moved, unknown));
      }
      return settled;
    }
  }

  // ---- one line, element by element

  struct Line {
    Held<1> held;
    Total total;
    bool deep = false;  // whether it is in the Total

    void sink() {
      if (deep) return;
      total = Total();
      for (const auto& part : {held.first, held.second, held.third}) total.add(part[0]);
      deep = true;
    }
    // Back into three numbers, if they do.
    void rise() {
      if (total.is_special()) return;
      Total left = total;
      Held<1> taken;
      for (auto* part : {&taken.first, &taken.second, &taken.third}) *part = splat<double, 1>(left.taken());
      if (!left.is_zero() || !Held<1>::all_zero(taken.first - taken.first)) return;
      held = taken;
      deep = false;
    }
  };

  FW_OUTLINE void walk(const S* in, int64_t n, int64_t stride, Line& line, double* out, int64_t out_stride) const {
    double wide[segment_size];
    for (int64_t i = 0; i < n; ++i) wide[i] = converted<double>(element_at(in + i * stride));
    line.sink();
    line.total.prefixes(wide, n, out_stride, plan.sink.dtype, out);
    line.rise();
  }

  // ---- lines, a segment at a time: `out` has room for whole vectors

  void scan_segment(const S* in, int64_t n, Line& line, double* out) const {
    if (line.deep || !scan_plainly(in, n, line, out)) walk(in, n, 1, line, out, 1);
  }

  bool scan_plainly(const S* in, int64_t n, Line& line, double* out) const {
    double prefixes[parts * segment_size];
    typename F::template Acc<1> all;
    clear_flags();
    const auto last = Work::template scan_packs<F>(in, n, [&](int64_t i, const AccOf<F, P>& local) FW_INLINED {
      store_parts(prefixes + i, segment_size, local);
    });
    all = element<F, P>(last, P - 1);
    settle(prefixes);
    settle(&all);
    if (lost_bits()) return false;
    const Held<W> held{splat<double, W>(line.held.first[0]), splat<double, W>(line.held.second[0]),
                       splat<double, W>(line.held.third[0])};
    auto unsure = splat<double, W>(0.0);
    with(before<1>(&line.held, 1), [&](auto before) FW_INLINED {
      for (int64_t i = 0; i < n; i += W) {
        store(out + i, rounded<before.value, W>(held, load_parts<F, W>(prefixes + i, segment_size), unsure));
      }
    });
    Held<1> then = line.held;
    if (!Held<W>::all_zero(unsure) || !then.take(all)) return false;
    line.held = then;
    return true;
  }

  void scan_segments(const Place& at, int64_t first, int64_t last, Line& line) const {
    S gathered[segment_size];
    double results[segment_size + W];
    for (int64_t s = first; s < last; ++s) {
      const int64_t n = segment_length(s);
      const S* in = segment_in(at, s, gathered);
      if (streaming && direct_in) fetch_ahead(reinterpret_cast<const char*>(in), n, sizeof(S));
      scan_segment(in, n, line, results);
      write(at.out + (s * segment_size + plan.shifted) * plan.along.out, plan.along.out, results, n);
    }
  }

  void write(char* out, int64_t stride, const double* results, int64_t n) const {
    if (!streaming || stride != static_cast<int64_t>(sizeof(Out))) return scatter(out, stride, results, n);
    alignas(64) char some[segment_size * sizeof(Out)];
    scatter(some, stride, results, n);
    stream(out, some, n * stride);
  }

  void scan_lines() {
    const int64_t line_bytes = count * static_cast<int64_t>(sizeof(S));
    if (thread_count() > 1 && plan.lines < 2 * thread_count() && line_bytes >= 2 * serial_bytes) {
      for (int64_t i = 0; i < plan.lines; ++i) scan_chained(line(plan.kept_rank, i), line_bytes);
      return;
    }
    share(plan.lines, line_bytes, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const Place at = line(plan.kept_rank, i);
        write_identities(at.out, 0, 1);
        Line begun;
        scan_segments(at, 0, segments, begun);
      }
      finish_streaming();
    });
  }

  // A long line on several threads: whoever takes a stretch learns its total, waits for what came before, passes both on,
  // and scans what is still in its cache.
  void scan_chained(const Place& at, int64_t bytes) {
    const int64_t stretch = std::max<int64_t>(1, task_bytes * segments / bytes);
    Total passed;
    std::atomic<int64_t> turn{0};
    write_identities(at.out, 0, 1);
    parallel((segments + stretch - 1) / stretch, [&](int64_t task) {
      const int64_t first = task * stretch, last = std::min(segments, first + stretch);
      Total own;
      Stretches<F> stretches;
      S gathered[segment_size];
      if (direct_in) {
        stretches.add(own, segment_in(at, first, gathered), std::min(count, last * segment_size) - first * segment_size);
      } else {
        for (int64_t s = first; s < last; ++s) stretches.add(own, segment_in(at, s, gathered), segment_length(s));
      }
      for (int spins = 0; turn.load(std::memory_order_acquire) != task; ++spins) {
        if (spins > 20000) sched_yield();
      }
      Line begun;
      begun.total = passed;
      begun.deep = true;
      passed.add(own);
      turn.store(task + 1, std::memory_order_release);
      begun.rise();
      scan_segments(at, first, last, begun);
      finish_streaming();
    });
  }

  // ---- columns: strips of the innermost kept axis

  struct Strip {
    Held<W> held[strip / W];
    Line deep[strip];
    bool any_deep = false;
  };

  void scan_columns() {
    const Axis& kept = plan.kept[plan.kept_rank - 1];
    const int64_t strips = (kept.size + strip - 1) / strip;
    const int64_t unit_bytes = std::min(kept.size, strip) * count * static_cast<int64_t>(sizeof(S));
    share(plan.lines / kept.size * strips, unit_bytes, [&](int64_t first, int64_t last) {
      Tiles<Strip> room(1);
      for (int64_t unit = first; unit < last; ++unit) {
        Place at = line(plan.kept_rank - 1, unit / strips);
        at.x += unit % strips * strip * kept.x;
        at.out += unit % strips * strip * kept.out;
        scan_strip(at, std::min(strip, kept.size - unit % strips * strip), *room.data);
      }
      finish_streaming();
    });
  }

  void scan_strip(const Place& at, int64_t columns, Strip& lines) const {
    const Axis& kept = plan.kept[plan.kept_rank - 1];
    const bool whole = columns % W == 0 && plan.source.direct && kept.x == static_cast<int64_t>(sizeof(S));
    const int64_t vectors = (columns + W - 1) / W;
    S gathered[strip_rows * strip];
    double results[strip_rows * strip];
    std::fill(std::begin(lines.held), std::end(lines.held), Held<W>{});
    lines.any_deep = false;
    write_identities(at.out, kept.out, columns);
    for (int64_t first = 0; first < count; first += strip_rows) {
      const int64_t rows = std::min(strip_rows, count - first);
      const char* x = at.x + first * plan.along.x;
      Rows<S> in{x, plan.along.x, nullptr, rows};
      if (!whole) {
        for (int64_t r = 0; r < rows; ++r) {
          S* row = gathered + r * strip;
          reader(row, x + r * plan.along.x, nullptr, kept, columns);
          std::fill(row + columns, row + vectors * W, reader.absent);
        }
        in = {reinterpret_cast<const char*>(gathered), strip * static_cast<int64_t>(sizeof(S)), nullptr, rows};
      }
      if (lines.any_deep || !scan_rows(in, vectors, lines, results)) walk_columns(in, columns, lines, results);
      char* out = at.out + (first + plan.shifted) * plan.along.out;
      for (int64_t r = 0; r < rows; ++r) write(out + r * plan.along.out, kept.out, results + r * strip, columns);
    }
  }

  bool scan_rows(const Rows<S>& in, int64_t vectors, Strip& lines, double* results) const {
    constexpr int64_t row = strip_rows * strip;
    double prefixes[parts * row];
    AccOf<F, W> last[strip / W];
    clear_flags();
    std::fill_n(last, vectors, absence<F, W>());
    for (int64_t r = 0; r < in.count; ++r) {
      const S* elements = in(r);
      for (int64_t v = 0; v < vectors; ++v) {
        if (streaming) __builtin_prefetch(reinterpret_cast<const char*>(elements + v * W) + 16 * in.stride, 0, 3);
        last[v] = joined<F, W>(last[v], elements + v * W);
        store_parts(prefixes + r * strip + v * W, row, last[v]);
      }
    }
    settle(prefixes);
    if (lost_bits()) return false;
    auto unsure = splat<double, W>(0.0);
    with(before<W>(lines.held, vectors), [&](auto before) FW_INLINED {
      for (int64_t v = 0; v < vectors; ++v) {
        for (int64_t at = v * W; at < in.count * strip; at += strip) {
          store(results + at, rounded<before.value, W>(lines.held[v], load_parts<F, W>(prefixes + at, row), unsure));
        }
      }
    });
    bool sure = Held<W>::all_zero(unsure);
    Held<W> then[strip / W];
    for (int64_t v = 0; sure && v < vectors; ++v) {
      then[v] = lines.held[v];
      sure = then[v].take(last[v]);
    }
    if (sure) std::copy_n(then, vectors, lines.held);
    return sure;
  }

  FW_OUTLINE void walk_columns(const Rows<S>& in, int64_t columns, Strip& lines, double* results) const {
    const int64_t stride = in.stride / static_cast<int64_t>(sizeof(S));
    bool deep = false;
    for (int64_t c = 0; c < columns; ++c) {
      Line& line = lines.deep[c];
      Held<W>& held = lines.held[c / W];
      if (!lines.any_deep) {
        new (&line) Line;
        line.held = remade_at(held, static_cast<int>(c % W));
      }
      walk(in(0) + c, in.count, stride, line, results + c, strip);
      deep |= line.deep;
    }
    // All of them are where most of them can be.
    for (int64_t c = 0; c < columns; ++c) {
      Line& line = lines.deep[c];
      if (deep) line.sink();
      else put(lines.held[c / W], static_cast<int>(c % W), line.held);
    }
    lines.any_deep = deep;
  }

  static Held<1> remade_at(const Held<W>& held, int i) {
    return {splat<double, 1>(held.first[i]), splat<double, 1>(held.second[i]), splat<double, 1>(held.third[i])};
  }
  static void put(Held<W>& held, int i, const Held<1>& one) {
    held.first.v[0][i] = one.first[0];
    held.second.v[0][i] = one.second[0];
    held.third.v[0][i] = one.third[0];
  }
};

}  // namespace foldwise::FOLDWISE_ISA
