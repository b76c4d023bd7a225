// Exact scans: every prefix rounded once. Plain prefixes are exact, and the flags prove it, in one double each or else in
// two. Where both fail, two doubles lose less than a bound; or a segment is walked with a Total, of which a word holds the upper part.
#pragma once
#include <optional>

#include "exact_prefixes.h"
#include "exact_reduce.h"
#include "relay.h"
#include "scan_work.h"

namespace foldwise::FOLDWISE_ISA {

template <class F>
struct ExactScan : ScanWork<F> {
  FOLDWISE_SCAN_WORK(F)
  using ScanWork<F>::ScanWork;
  static constexpr int64_t strip = 256, least_strip = 64, tile = 8 * strip, short_line = 64, least_nearly = 64;
  static constexpr int64_t most_words = most_interleaved_words * segment_size;
  static constexpr bool fits_one = F::parts == 1;  // doubles have no bits to spare
  static constexpr int64_t size = sizeof(S);
  const bool narrower = plan.sink.dtype != Dtype::float64;

  bool run() {
    const bool wide = plan.kept_rank && plan.kept[plan.kept_rank - 1].size >= W;
    if (wide && !plan.nest_rank && (count < short_line || plan.columns_are_closer())) scan_columns();
    else scan_lines();
    return fits;
  }

 private:
  // ---- one line, whatever is in it

  struct Line {
    TwoParts<1> held = absence<InTwo, 1>();
    double anchor = -1;  // none yet
    Patience in_one, in_two, nearly;
    Stretches<F> stretches;
    std::optional<Total> total;  // which most lines never need
    bool deep = false;           // whether it is there

    // Another line, which may be like the one before, after what came before it.
    void begin(const Doubles& before) {
      held = {splat<double, 1>(before.part[0]), splat<double, 1>(before.part[1])};
      deep = before.part[2] != 0 || before.part[0] - before.part[0] != 0;
      if (deep) total = before.total();
    }
    bool end(Doubles& then) {
      then = {};
      return deep ? then.add(*total) : then.add({held.high[0], held.low[0], 0});
    }
    void sink() {
      if (deep) return;
      total.emplace();
      add_parts(*total, held);
      deep = true;
    }
    // Back into two numbers, if they do.
    void rise() {
      if (total->is_special()) return;
      Total left = *total;
      const double high = left.taken(), low = left.taken();
      if (!left.is_zero() || high - high != 0) return;
      held = {splat<double, 1>(high), splat<double, 1>(low)};
      deep = false;
    }
  };

  // `stride` is in bytes: fields of records lie as far apart as these are long.
  FW_OUTLINE void walk(const S* in, int64_t n, int64_t stride, Line& line, double* out, int64_t out_stride) const {
    double wide[segment_size], results[segment_size];  // out may be where in is
    line.sink();
    if (stride == size && out_stride == 1 && n >= least_nearly && line.nearly.lasts()) {
      widen<W>(wide, in, n);
      line.nearly.learn(prefixes_nearly_in_two(wide, n, *line.total, plan.sink.dtype, results, [&](int64_t first, int64_t some) {
        line.stretches.add(*line.total, in + first, some);
      }));
      std::copy_n(results, n, out);
    } else {
      const char* x = reinterpret_cast<const char*>(in);
      for (int64_t i = 0; i < n; ++i) wide[i] = converted<double>(element_at(reinterpret_cast<const S*>(x + i * stride)));
      line.total->prefixes(wide, n, out_stride, plan.sink.dtype, out);
    }
    line.rise();
  }

  // ---- what comes before lines, and then with them

  static Doubles before(const Place& at, int64_t stride, int64_t i) {
    Doubles kept{};
    if (at.carried) std::memcpy(&kept, at.carried + i * stride, sizeof kept);
    return kept;
  }
  void carry_on(const Place& at, int64_t stride, int64_t i, Line& line) {
    if (!at.carried) return;
    Doubles then;
    note(line.end(then));
    std::memcpy(at.carried + i * stride, &then, sizeof then);
  }
  // Where a shifted scan of lines begins.
  void write_first(const Place& at, int64_t out_stride, int64_t stride, int64_t lines) const {
    if (!at.carried || !plan.shifted) return write_identities(at.out, out_stride, lines);
    for (int64_t i = 0; i < lines; ++i) {
      const double first = before(at, stride, i).rounded({}, plan.sink.dtype);
      scatter(at.out + i * out_stride, 0, &first, 1);
    }
  }

  // ---- lines, a segment at a time: `out` has room for whole packs, and is not where the line is

  void scan_segment(const S* in, int64_t n, Line& line, double* out) const {
    if (line.deep || !(scan_in_one(in, n, line, out) || scan_in_two(in, n, line, out))) walk(in, n, size, line, out, 1);
  }

  bool scan_in_one(const S* in, int64_t n, Line& line, double* out) const {
    if (!fits_one || !line.in_one.lasts()) return false;
    settle(&line);
    clear_flags();
    const Pack<double, 1> begun = line.held.high + line.held.low;
    const auto last = Work::template scan_packs<InOne, W>(in, n, [&](int64_t i, const AccOf<InOne, W>& local, auto) FW_INLINED {
      store(out + i, local.total);
    }, {splat<double, W>(begun[0])});
    const TwoParts<1> then{splat<double, 1>(last.total[W - 1]), splat<double, 1>(0.0)};
    settle(out);
    settle(&then);
    if (!line.in_one.learn(!lost_bits() && all_finite<1>(then))) return false;
    line.held = then;
    return true;
  }

  bool scan_in_two(const S* in, int64_t n, Line& line, double* out) const {
    if (!line.in_two.lasts()) return false;
    double wide[segment_size], high[segment_size], low[segment_size];
    const bool as_they_lie = std::is_same_v<S, double> && n % W == 0;
    if (!as_they_lie) widen<W>(wide, in, n);
    const double* x = as_they_lie ? reinterpret_cast<const double*>(in) : wide;
    const bool at_once = adds_unnoted && !narrower;
    const auto prefixes = [&] {
      return at_once ? line_rounded(x, n, line.anchor, line.held, out) : line_in_two(x, n, line.anchor, line.held, high, low);
    };
    const auto anchored = [&] { return anchor_line(x, n, line.anchor, line.held); };
    if (!line.in_two.learn((line.anchor >= 0 && prefixes()) || (anchored() && prefixes()))) return false;
    if (!at_once) round_two(high, low, n, narrower, out);
    return true;
  }

  // N at a time, where there is room for as many as that.
  template <int N>
  static void widen(double* to, const S* from, int64_t n) {
    int64_t i = 0;
    for (; i + N <= n; i += N) store(to + i, load<double, N>(from + i));
    if (i < n) store(to + i, load_some<double, N>(from + i, static_cast<int>(n - i), 0.0));
  }

  static bool takes_doubles(const char* out) { return reinterpret_cast<std::uintptr_t>(out) % alignof(double) == 0; }

  // `k` lines, interleaved if there are several.
  void scan_segments(const Place& at, int64_t k, int64_t first, int64_t last, Line* lines) const {
    S gathered[most_words];
    double results[most_words];
    const bool in_place = k == 1 && !narrower && !streaming && plan.along.out == sizeof(double) && takes_doubles(at.out) && at.x != at.out;
    for (int64_t s = first; s < last; ++s) {
      const int64_t n = segment_length(s);
      const S* in = segments_in(at, k, s, gathered);
      if (streaming && direct_in) fetch_ahead(reinterpret_cast<const char*>(in), n, size);
      char* out = at.out + (s * segment_size + plan.shifted) * plan.along.out;
      double* to = in_place && n % W == 0 ? reinterpret_cast<double*>(out) : results;
      for (int64_t i = 0; i < k; ++i) scan_segment(in + i * segment_size, n, lines[i], to + i * segment_size);
      if (k > 1) write_together(out, results, segment_size, k, n);
      else if (to == results) write(out, plan.along.out, results, n);
    }
  }

  const S* segments_in(const Place& at, int64_t k, int64_t segment, S* gathered) const {
    if (k == 1) return segment_in(at, segment, gathered);
    const char* x = at.x + segment * segment_size * plan.along.x;
    if (streaming) fetch_ahead(x, segment_length(segment), plan.along.x);
    deinterleave(gathered, segment_size, x, k, segment_length(segment));
    return gathered;
  }

  // Rows of results that lie interleaved where they go.
  void write_together(char* out, const double* results, int64_t row, int64_t rows, int64_t n) const {
    Out narrowed[most_words], together[most_words];
    for (int64_t r = 0; r < rows; ++r) scatter(reinterpret_cast<char*>(narrowed + r * row), sizeof(Out), results + r * row, n);
    interleave(streaming ? reinterpret_cast<char*>(together) : out, narrowed, row, rows, n);
    if (streaming) stream(out, reinterpret_cast<const char*>(together), rows * n * sizeof(Out));
  }

  void write_ready(char* out, const Out* results, int64_t n) const {
    if (streaming) stream(out, reinterpret_cast<const char*>(results), n * sizeof(Out));
    else std::memcpy(out, results, n * sizeof(Out));
  }
  void write(char* out, int64_t stride, const double* results, int64_t n) const {
    if (stride != static_cast<int64_t>(sizeof(Out))) return scatter(out, stride, results, n);
    if constexpr (std::is_same_v<Out, double>) {
      if (!narrower) return write_ready(out, results, n);
    }
    if (!streaming) return scatter(out, stride, results, n);
    alignas(64) char some[segment_size * sizeof(Out)];
    scatter(some, stride, results, n);
    stream(out, some, n * stride);
  }

  // Whether shuffles take `k` neighbours apart along one axis, and put them together again.
  bool interleaved(const Axis& near, const Axis& far) const {
    const int64_t k = near.size, out = sizeof(Out);
    return plan.source.direct && !plan.nest_rank && k >= 2 && k <= most_interleaved_words && near.x == size &&
           far.x == k * size && is_out(plan.sink.dtype) && near.out == out && far.out == k * out;
  }

  void scan_lines() {
    const bool together = plan.kept_rank && interleaved(plan.kept[plan.kept_rank - 1], plan.along);
    const int64_t k = together ? plan.kept[plan.kept_rank - 1].size : 1, groups = plan.lines / k, bytes = k * count * size;
    const int rank = plan.kept_rank - together;
    const int64_t stride = together ? plan.kept[rank].mask : 0;
    if (thread_count() > 1 && groups < 2 * thread_count() && bytes >= Work::least_chained) {
      for (int64_t i = 0; i < groups; ++i) scan_chained(line(rank, i), k, stride, bytes);
      return;
    }
    // Results of short lines may adjoin, and then leave together; but for those that are made where they belong.
    const bool adjoin = k == 1 && 2 * count <= segment_size && !plan.shifted && (narrower || streaming) && is_out(plan.sink.dtype) &&
                        plan.along.out == static_cast<int64_t>(sizeof(Out));
    this->share_lines(groups, bytes, [&](int64_t first, int64_t last) {
      if (adjoin) return scan_adjoining(first, last);
      Line lines[most_interleaved_words];
      for (int64_t i = first; i < last; ++i) {
        const Place at = line(rank, i);
        write_first(at, sizeof(Out), stride, k);
        for (int64_t j = 0; j < k; ++j) lines[j].begin(before(at, stride, j));
        scan_segments(at, k, 0, segments, lines);
        for (int64_t j = 0; j < k; ++j) carry_on(at, stride, j, lines[j]);
      }
      finish_streaming();
    });
  }

  // Lines of which some fill a segment.
  void scan_adjoining(int64_t first, int64_t last) {
    S gathered[segment_size];
    double results[segment_size + pack_of_doubles];
    char* to = nullptr;
    int64_t held = 0;
    const auto leave = [&] { write(to, sizeof(Out), results, std::exchange(held, 0)); };
    Line state;
    for (int64_t i = first; i < last; ++i) {
      const Place at = line(plan.kept_rank, i);
      if (held && (held + count > segment_size || at.out != to + held * static_cast<int64_t>(sizeof(Out)))) leave();
      if (!held) to = at.out;
      const S* in = segment_in(at, 0, gathered);
      if (streaming && direct_in) fetch_ahead(reinterpret_cast<const char*>(in), count, size);
      state.begin(before(at, 0, 0));
      scan_segment(in, count, state, results + held);
      carry_on(at, 0, 0, state);
      held += count;
    }
    leave();
    finish_streaming();
  }

  // Long lines on several threads: whoever takes a stretch learns its totals, waits for what came before, passes both on,
  // and scans what is still in its cache.
  void scan_chained(const Place& at, int64_t k, int64_t stride, int64_t bytes) {
    Total passed[most_interleaved_words];
    for (int64_t i = 0; i < k; ++i) passed[i] = before(at, stride, i).total();
    write_first(at, sizeof(Out), stride, k);
    // None leads: what they hold is learned faster than they are scanned, and by loops that fetch ahead.
    Relay(segments, bytes, Relay::alike).run([&](const Relay::Stretch& stretch) {
      const int64_t first = stretch.first, last = stretch.last;
      Total own[most_interleaved_words];
      Stretches<F> stretches[most_interleaved_words];
      S gathered[most_words];
      if (direct_in) {
        stretches[0].add(own[0], segment_in(at, first, gathered), std::min(count, last * segment_size) - first * segment_size);
      } else {
        for (int64_t s = first; s < last; ++s) {
          const S* in = segments_in(at, k, s, gathered);
          for (int64_t i = 0; i < k; ++i) stretches[i].add(own[i], in + i * segment_size, segment_length(s));
        }
      }
      stretch.wait();
      Line lines[most_interleaved_words];
      for (int64_t i = 0; i < k; ++i) {
        lines[i].total = passed[i];
        lines[i].deep = true;
        passed[i].add(own[i]);
      }
      stretch.hand_on();
      for (int64_t i = 0; i < k; ++i) lines[i].rise();
      scan_segments(at, k, first, last, lines);
      finish_streaming();
    });
    for (int64_t i = 0; i < k; ++i) {
      Line whole;
      whole.total = passed[i];
      whole.deep = true;
      carry_on(at, stride, i, whole);
    }
  }

  // ---- columns: strips of the innermost kept axis, some rows at a time

  struct Strip {
    TwoParts<W> held[strip / W];
    Pack<double, W> anchors[strip / W];
    int64_t anchored;  // so many vectors of columns, perhaps of the strip before: the flags tell where these do not suit
    bool any_deep = false;
    Patience patience;
    Line deep[strip];
  };

  void scan_columns() {
    const Axis& kept = plan.kept[plan.kept_rank - 1];
    const Worth worth = size == 8 && lines_come_in_pairs ? Work::worth_of_columns() : Work::worth_of_lines;  // doubles are written where they lie
    const int64_t lines = plan.lines / kept.size;
    const auto strips_of = [&](int64_t width) { return (kept.size + width - 1) / width; };
    const int64_t columns = Work::strip_width(strip, least_strip, threads_for(plan.lines * count * size, worth), !streaming,
                                              [&](int64_t width) { return lines * strips_of(width); });
    const int64_t strips = strips_of(columns), unit_bytes = std::min(kept.size, columns) * count * size;
    // Lines of a few elements, one after the other in memory, become columns.
    const bool narrow = plan.length == count && !plan.shifted && interleaved(plan.along, kept);
    this->share_lines(lines * strips, unit_bytes, [&](int64_t first, int64_t last) {
      Tiles<Strip> room(1);
      room.data->anchored = 0;
      for (int64_t unit = first; unit < last; ++unit) {
        Place at = line(plan.kept_rank - 1, unit / strips);
        const int64_t column = unit % strips * columns;
        at.x += column * kept.x;
        at.out += column * kept.out;
        if (at.carried) at.carried += column * kept.mask;
        scan_strip(at, std::min(columns, kept.size - column), narrow, *room.data);
      }
      finish_streaming();
    }, worth);
  }

  void scan_strip(const Place& at, int64_t columns, bool narrow, Strip& lines) {
    const Axis& kept = plan.kept[plan.kept_rank - 1];
    const int64_t vectors = (columns + W - 1) / W, width = vectors * W, tile_rows = tile / width;
    const bool whole = columns == width && plan.source.direct && kept.x == size;
    // Rows of results are made at once where the flags need not be told, and where they go, unless they pass the caches; but what may
    // have to be scanned again must not be overwritten.
    constexpr bool doubles = std::is_same_v<Out, double>;
    const bool adjoin = is_out(plan.sink.dtype) && kept.out == int64_t{sizeof(Out)};
    const bool at_once = adds_unnoted && (doubles ? !narrower : adjoin && !narrow);
    const bool in_place = (doubles || at_once) && adjoin && whole && !narrow && !streaming && at.x != at.out &&
                          (plan.along.out | reinterpret_cast<std::intptr_t>(at.out)) % int64_t{alignof(Out)} == 0;
    S gathered[tile];
    double results[tile];
    Out shorter[doubles ? 1 : tile], *ready = shorter;
    if constexpr (doubles) ready = results;
    begin_strip(at, columns, lines);
    write_first(at, kept.out, kept.mask, columns);
    for (int64_t first = 0; first < count; first += tile_rows) {
      const int64_t rows = std::min(tile_rows, count - first);
      const char* x = at.x + first * plan.along.x;
      Rows<S> in{x, plan.along.x, nullptr, rows};
      if (!whole) {
        in = {reinterpret_cast<const char*>(gathered), width * size, nullptr, rows};
        if (narrow) {
          if (streaming) fetch_ahead(x, columns, kept.x);
          deinterleave(gathered, width, x, rows, columns);
        }
        if (!narrow) reader.lines(gathered, width, x, nullptr, kept, plan.along, columns, rows);
        else for (int64_t r = 0; r < rows; ++r) std::fill(gathered + r * width + columns, gathered + (r + 1) * width, reader.absent);
      }
      char* out = at.out + (first + plan.shifted) * plan.along.out;
      const auto to = in_place ? RowsOf<Out>{reinterpret_cast<Out*>(out), plan.along.out / int64_t{sizeof(Out)}} : RowsOf<Out>{ready, width};
      const bool rounded = at_once && !lines.any_deep && scan_rounded(in, vectors, lines, to);
      RowsOf<double> wide{results, width};
      if constexpr (doubles) wide = to;
      const auto in_doubles = [&] {
        return (!at_once && scan_rows_in_one(in, vectors, lines, wide)) ||
               ((!at_once || fits_one) && scan_rows_in_two(in, vectors, lines, wide));
      };
      if (!rounded && (lines.any_deep || !in_doubles())) walk_columns(in, columns, lines, wide);
      if (narrow) write_together(out, results, width, count, columns);
      for (int64_t r = 0; !narrow && !(in_place && (doubles || rounded)) && r < rows; ++r) {
        if (rounded && !doubles) write_ready(out + r * plan.along.out, to.row(r), columns);
        else write(out + r * plan.along.out, kept.out, wide.row(r), columns);
      }
    }
    for (int64_t c = 0; at.carried && c < columns; ++c) {
      Line alone;
      alone.held = element<InTwo, W>(lines.held[c / W], static_cast<int>(c % W));
      carry_on(at, kept.mask, c, lines.any_deep ? lines.deep[c] : alone);
    }
  }

  void begin_strip(const Place& at, int64_t columns, Strip& lines) const {
    std::fill_n(lines.held, (columns + W - 1) / W, absence<InTwo, W>());
    lines.any_deep = false;
    lines.patience = Patience();
    const int64_t stride = plan.kept[plan.kept_rank - 1].mask;
    for (int64_t c = 0; at.carried && c < columns; ++c) {
      Line line;
      line.begin(before(at, stride, c));
      hold(lines, c, line);
      lines.any_deep |= line.deep;
    }
    for (int64_t c = 0; lines.any_deep && c < columns; ++c) {
      new (&lines.deep[c]) Line;
      lines.deep[c].begin(before(at, stride, c));
      lines.deep[c].sink();
    }
  }
  static void hold(Strip& lines, int64_t c, const Line& line) {
    lines.held[c / W].high.v[0][c % W] = line.held.high[0];
    lines.held[c / W].low.v[0][c % W] = line.held.low[0];
  }

  // What lies below one of these rows, among the next: of short elements the first cache has room for it.
  FW_INLINE void fetch_below(const Rows<S>& in, int64_t row, int64_t width) const {
    if (!streaming) return;
    const char* below = reinterpret_cast<const char*>(in(row)) + in.count * in.stride;
    if constexpr (size == 8) fetch_lines(below, width * size, true);
    for (int64_t line = 0; size < 8 && line < width * size; line += 64) __builtin_prefetch(below + line, 0, 3);
  }

  static bool anchor(const Rows<double>& in, int64_t vectors, Strip& lines) {
    lines.anchored = anchor_columns(in, vectors, lines.anchors, lines.held) ? vectors : 0;
    return lines.anchored > 0;
  }

  // Results at once: in one number, or in two.
  bool scan_rounded(const Rows<S>& in, int64_t vectors, Strip& lines, const RowsOf<Out>& results) const {
    const auto prefixes = [&] {
      if constexpr (!adds_unnoted) return false;
      else return columns_rounded(in, vectors, lines.anchors, lines.held, results, streaming ? in.count * in.stride : 0);
    };
    if constexpr (fits_one) {
      return lines.patience.lasts() && lines.patience.learn(prefixes());
    } else {
      return (lines.anchored >= vectors && prefixes()) || (anchor(in, vectors, lines) && prefixes());
    }
  }

  bool scan_rows_in_one(const Rows<S>& in, int64_t vectors, Strip& lines, const RowsOf<double>& results) const {
    if (!fits_one || !lines.patience.lasts()) return false;
    // Row after row: each is the one before and its elements.
    const int64_t width = vectors * W;
    double begun[strip];
    const double* before = begun;
    settle(&lines);
    clear_flags();
    for (int64_t v = 0; v < vectors; ++v) store(begun + v * W, lines.held[v].high + lines.held[v].low);
    for (int64_t r = 0; r < in.count; ++r) {
      const S* elements = in(r);
      double* sums = results.row(r);
      fetch_below(in, r, width);
      for (int64_t c = 0; c < width; c += W) store(sums + c, load<double, W>(before + c) + load<double, W>(elements + c));
      before = sums;
    }
    settle(results.first);
    const bool exact = !lost_bits();
    auto nothing = splat<double, W>(0.0);
    for (int64_t c = 0; c < width; c += W) nothing = nothing + (load<double, W>(before + c) - load<double, W>(before + c));
    if (!lines.patience.learn(exact && !lanes_where(nothing.v[0] != 0))) return false;
    for (int64_t v = 0; v < vectors; ++v) lines.held[v] = {load<double, W>(before + v * W), splat<double, W>(0.0)};
    return true;
  }

  bool scan_rows_in_two(const Rows<S>& in, int64_t vectors, Strip& lines, const RowsOf<double>& results) const {
    const int64_t width = vectors * W;
    double wide[tile], high[tile], low[tile];
    Rows<double> x{reinterpret_cast<const char*>(wide), width * int64_t{sizeof(double)}, nullptr, in.count};
    for (int64_t r = 0; !fits_one && r < in.count; ++r) fetch_below(in, r, width);
    if constexpr (std::is_same_v<S, double>) x = in;
    else for (int64_t r = 0; r < in.count; ++r) widen<W>(wide + r * width, in(r), width);
    const auto prefixes = [&] { return columns_in_two(x, vectors, lines.anchors, lines.held, high, low); };
    if (!(lines.anchored >= vectors && prefixes()) && !(anchor(x, vectors, lines) && prefixes())) return false;
    for (int64_t r = 0; r < in.count; ++r) round_two(high + r * width, low + r * width, width, narrower, results.row(r));
    return true;
  }

  FW_OUTLINE void walk_columns(const Rows<S>& in, int64_t columns, Strip& lines, const RowsOf<double>& results) const {
    bool deep = false;
    for (int64_t c = 0; c < columns; ++c) {
      Line& line = lines.deep[c];
      TwoParts<W>& held = lines.held[c / W];
      if (!lines.any_deep) {
        new (&line) Line;
        line.held = element<InTwo, W>(held, static_cast<int>(c % W));
      }
      walk(in(0) + c, in.count, in.stride, line, results.first + c, results.stride);
      deep |= line.deep;
    }
    // All of them are where most of them can be.
    for (int64_t c = 0; c < columns; ++c) {
      Line& line = lines.deep[c];
      if (deep) line.sink();
      else hold(lines, c, line);
    }
    lines.any_deep = deep;
  }
};

}  // namespace foldwise::FOLDWISE_ISA
