// Lines of at most one segment: nothing to carry, so they run on into each other.
#pragma once
#include "scan_work.h"

namespace foldwise::FOLDWISE_ISA {

template <class F>
struct ShortLines : ScanWork<F> {
  FOLDWISE_SCAN_WORK(F)
  static constexpr int64_t room = most_interleaved_words * segment_size;

  const Axis& kept = plan.kept[plan.kept_rank - 1];
  const int64_t length = plan.along.size;  // of a line as it is read; it is written plan.length long
  const int64_t in_line = length * static_cast<int64_t>(sizeof(S)), out_line = plan.length * static_cast<int64_t>(sizeof(Out));
  // Without gaps, in and out, a batch of lines is one stretch of memory, which also can be turned round. Lines that do not lie as they
  // are scanned are gathered, a batch at a time: then they do. Results that do not lie as they are made are put there afterwards.
  const bool backwards = reversed_out && plan.along.x < 0 && kept.x == -length * plan.along.x && kept.out == out_line;
  const bool gathers = !direct_in && !backwards;
  const bool placed_later = !direct_out && !backwards;
  const bool adjoining = !placed_later && (!direct_in || kept.x == in_line) && kept.out == out_line;
  const bool narrow = adjoining && plan.length == length && length >= 2 && length <= most_interleaved_words;
  const bool flows = streaming && adjoining && direct_in && !narrow;
  const int64_t at_once = 128 / std::clamp<int64_t>(length, 1, 128);

  using ScanWork<F>::ScanWork;

  // Whether a plan is such that this is the way for it.
  bool apply() const {
    if (!plan.kept_rank || plan.nest_rank || plan.length > segment_size || length < 2) return false;
    return backwards || (can_place() && ((direct_in && direct_out) || !plan.columns_are_closer()));
  }

  // Whether results come to where they belong: as they are, or narrowed from what they are made in.
  bool can_place() const { return is_out(plan.sink.dtype) || std::is_same_v<Out, A>; }

  // Between some lines and the next ones some more come, and those before leave, past the caches.
  struct Flow {
    const char *const x, *const results;
    char* const out;
    int64_t gone = 0;
  };
  FW_OUTLINE void flow_on(Flow& flow, int64_t line, int64_t lines) const {
    if (line % at_once) return;
    fetch_ahead(flow.x + line * in_line, std::min(at_once, lines - line), in_line);
    flow.gone = stream_up(flow.out, flow.results, flow.gone, line * out_line);
  }

  template <class G>
  bool scan_some(const char* x, int64_t stride, int64_t lines, char* out, int64_t out_stride, Flow* flow = nullptr) const {
    Judge judge{plan.finish};
    if (!placed_later) write_identities(out, out_stride, lines);
    const auto scan_each = [&]<int at_once>(std::integral_constant<int, at_once>) FW_INLINED {
      for (int64_t line = 0; line < lines; ++line) {
        if (flow) flow_on(*flow, line, lines);
        Out* to = reinterpret_cast<Out*>(out + line * out_stride) + plan.shifted;
        A newest{};
        Work::template scan_packs<G, P, at_once>(reinterpret_cast<const S*>(x + line * stride), count, [&](int64_t i, const AccOf<G, P>& local, auto whole) FW_INLINED {
          const Pack<A, P> y = Work::template alone<G, P>(local, judge);
          newest = y[P - 1];
          if (whole) store(to + i, y);
          else store_some(to + i, y, this->count - i);
        });
        canonical_from_here(to, count, newest);
      }
    };
    // Lines that never come to that many packs take longer where the loop expects them.
    constexpr int most = Work::template packs_at_once<G>;
    if (most > 1 && count >= most * P) scan_each(std::integral_constant<int, most>{});
    else scan_each(std::integral_constant<int, 1>{});
    settle(out);
    return judge.fits;
  }

  // Lines of two to four elements: turned into that many rows in cache.
  template <class G>
  bool scan_narrow(const char* x, int64_t lines, char* out) const {
    Judge judge{plan.finish};
    S rows[room];
    Out scanned[room];
    deinterleave(rows, segment_size, x, length, lines);
    const int64_t whole = (lines + W - 1) / W * W;
    for (int64_t r = 0; r < count; ++r) std::fill(rows + r * segment_size + lines, rows + r * segment_size + whole, reader.absent);
    for (int64_t i = 0; i < lines; i += W) {
      AccOf<G, W> acc[most_interleaved_words];
      for (int64_t r = 0; r < count; ++r) acc[r] = G::start(load<A, W>(rows + r * segment_size + i));
      if (count > 1) acc[1] = G::merge(acc[0], acc[1]);
      if (count > 3) acc[3] = G::merge(acc[1], G::merge(acc[2], acc[3]));
      if (count > 2) acc[2] = G::merge(acc[1], acc[2]);
      for (int64_t r = 0; r < count; ++r) {
        store(scanned + (r + plan.shifted) * segment_size + i, canonical(Work::template alone<G, W>(acc[r], judge)));
      }
    }
    write_identities(reinterpret_cast<char*>(scanned), sizeof(Out), lines);
    interleave(out, scanned, segment_size, length, lines);
    settle(out);
    return judge.fits;
  }

  const char* gathered(const char* x, int64_t lines, S* to) const {
    const bool as_one = kept.x == length * plan.along.x;
    if (as_one) reader(to, x, nullptr, plan.along, lines * length);
    else reader.lines(to, length, x, nullptr, plan.along, kept, length, lines);
    return reinterpret_cast<const char*>(to);
  }

  // A batch of adjoining lines, in the order of memory; backwards, its last element is the first of the first line.
  void scan_batch(const char* x, int64_t lines, char* out) {
    S turned[room];
    Out results[room], turned_back[room];
    const bool near = std::abs(kept.x) <= 2 * in_line;
    if (streaming && !flows && near) fetch_ahead(x, lines, kept.x);
    const char* in = x;
    if (backwards) {
      reader(turned, x + (1 - lines * length) * plan.along.x, nullptr, plan.along, lines * length);
      in = reinterpret_cast<const char*>(turned);
    } else if (gathers) {
      in = gathered(x, lines, turned);
    }
    char* to = backwards || streaming ? reinterpret_cast<char*>(results) : out;
    Flow flow{x, to, out};
    note(guarded<F>([&]<class G>(G) FW_INLINED {
      if (narrow) return scan_narrow<G>(in, lines, to);
      flow.gone = 0;
      return scan_some<G>(in, in_line, lines, to, out_line, flows ? &flow : nullptr);
    }));
    if (backwards) {
      Out* back = streaming ? turned_back : reinterpret_cast<Out*>(out);
      copy_backwards(back, results + lines * plan.length - 1, lines * plan.length);
      to = reinterpret_cast<char*>(back);
    }
    if (streaming) stream(out + flow.gone, to + flow.gone, lines * out_line - flow.gone);
  }

  // Lines between which there are gaps, or whose results are placed later.
  void scan_apart(const char* x, int64_t lines, char* out) {
    S dense[segment_size];
    Out results[segment_size];
    const char* in = gathers ? gathered(x, lines, dense) : x;
    char* const to = placed_later ? reinterpret_cast<char*>(results) : out;
    const int64_t stride = gathers ? in_line : kept.x, to_stride = placed_later ? out_line : kept.out;
    note(guarded<F>([&]<class G>(G) FW_INLINED { return scan_some<G>(in, stride, lines, to, to_stride); }));
    if (placed_later) place(results, lines, out);
  }
  void place(const Out* results, int64_t lines, char* out) const {
    const int64_t step = plan.along.out;
    const bool as_one = kept.out == plan.length * step;
    const int64_t at_a_time = as_one ? lines * plan.length : plan.length;
    char* to = out;
    for (int64_t done = 0; done < lines * plan.length; done += at_a_time, results += at_a_time, to += kept.out) {
      if (reversed_out) {
        copy_backwards(reinterpret_cast<Out*>(to + (at_a_time - 1) * step), results + at_a_time - 1, at_a_time);
      } else if constexpr (std::is_same_v<Out, A>) {
        scatter(to, step, results, at_a_time);
      } else {
        for (int64_t i = 0; i < at_a_time; ++i) std::memcpy(to + i * step, results + i, sizeof(Out));
      }
    }
    write_identities(out, kept.out, lines);
  }

  bool run() {
    const int64_t batch = narrow ? segment_size : std::max<int64_t>(1, (flows ? 2 : 1) * segment_size / std::max(length, plan.length));
    // Backwards, a line starts at its end.
    const int64_t to_low_x = backwards ? (length - 1) * plan.along.x : 0, to_low_out = backwards ? (plan.length - 1) * plan.along.out : 0;
    this->share_lines(plan.lines, in_line, [&](int64_t first, int64_t last) {
      Cursor at(plan.kept, plan.kept_rank, plan.source.x, nullptr, first);
      while (first < last) {
        const int64_t lines = std::min({batch, at.left_in_line(), last - first});
        char* out = plan.sink.out + at.out;
        if (adjoining) scan_batch(at.x + to_low_x, lines, out + to_low_out);
        else scan_apart(at.x, lines, out);
        at.advance(lines);
        first += lines;
      }
      finish_streaming();
    });
    return fits;
  }
};

}  // namespace foldwise::FOLDWISE_ISA
