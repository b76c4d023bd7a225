// Running results along lines: a segment after the other, each in packs, past the caches where results are large; long lines
// are shared out, and a few that lie interleaved are walked together.
#pragma once
#include "scan_work.h"

namespace foldwise::FOLDWISE_ISA {

template <class F>
struct ScanLines : ScanWork<F> {
  FOLDWISE_SCAN_WORK(F)
  using Carry = CarryOf<F, P>;
  static_assert(!F::guarded || !regroups<F>);  // a segment that begins with all that came before is not done again
  const bool backwards = plan.along.x < 0;

  using ScanWork<F>::ScanWork;

  // What goes on beside the scan of a segment, some elements at a time: what is read later comes, what does not lie as it is
  // scanned is gathered, and what was scanned before leaves, past the caches.
  struct Flow {
    static constexpr int64_t step = 128;

    const ScanLines& scan;
    const char* const x;
    S* const gathered;  // or null
    const int64_t stride, distance, count;
    char* const out;  // or null
    alignas(64) Out results[segment_size];
    int64_t gone = 0;  // bytes of them that have left

    Flow(const ScanLines& scan, const char* x, S* gathered, int64_t distance, int64_t count, char* out)
        : scan(scan), x(x), gathered(gathered), stride(scan.plan.along.x), distance(distance), count(count), out(out) {}

    void begin() { gone = 0; }
    FW_INLINE void advance(int64_t first, int64_t some) {
      const char* from = x + first * stride;
      if (distance) fetch_ahead(from, some, stride, distance);
      if (gathered) scan.reader(gathered + first, from, nullptr, scan.plan.along, some);
      if (out) leave(first);
    }
    FW_INLINE void leave(int64_t ready) {
      constexpr int64_t size = sizeof(Out);
      if (scan.reversed_out) gone = stream_down(out + count * size, results, gone, ready * size);
      else gone = stream_up(out, reinterpret_cast<const char*>(results), gone, ready * size);
    }
    void finish() {
      leave(count);
      const int64_t whole = count * sizeof(Out), rest = whole - gone;
      if (scan.reversed_out) copy_backwards(reinterpret_cast<Out*>(out), results + count - 1, rest / static_cast<int64_t>(sizeof(Out)));
      else std::memcpy(out + gone, reinterpret_cast<const char*>(results) + gone, rest);
    }
  };

  // One segment in either arithmetic, and the carry moved past it.
  template <class T>
  FW_OUTLINE void scan_segment(const S* in, int64_t n, Carry& carry, T* to, Flow* flow = nullptr, bool past_caches = false) {
    const auto scanned = [&]<class G>(G) FW_INLINED {
      Judge judge{plan.finish};
      A newest{};
      if (flow) flow->begin();
      constexpr int64_t kilobyte_of_results = 1024 / sizeof(T);  // which leaves as it is made; in the first cache less should wait
      const int64_t most = !flow ? n : past_caches ? kilobyte_of_results : Flow::step;
      AccOf<G, P> last = begun<G>(carry);
      for (int64_t first = 0; first < n; first += most) {
        const int64_t some = std::min(most, n - first);
        if (flow) flow->advance(first, some);
        last = Work::template scan_packs<G>(in + first, some, [&](int64_t i, const AccOf<G, P>& local, auto whole) FW_INLINED {
          const Pack<A, P> y = carry.template emit<G>(local, judge);
          newest = y[P - 1];
          if (!whole) return store_some(to + first + i, y, some - i);
          if constexpr (streams_packs<T, A>) {
            if (past_caches) return stream_pack(to + first + i, y);
          }
          store(to + first + i, y);
        }, last);
      }
      if (canonical_from_here(to, n, newest) && flow) flow->begin();
      settle(to);
      note(judge.fits);
      return last;
    };
    if constexpr (F::guarded) {
      if (carry.plain()) {
        clear_flags();
        const auto last = scanned(F{});
        if (!spoilt<F>()) return carry.advance(F::lift(last));
      }
      carry.advance(carefully<C>(scanned));
    } else if constexpr (regroups<F>) {
      carry.before = scanned(F{});
    } else {
      carry.advance(scanned(F{}));
    }
  }
  // What packs of a segment are placed on, which may be all that came before.
  template <class G>
  static FW_INLINE AccOf<G, P> begun(const Carry& carry) {
    if constexpr (regroups<G>) return carry.before;
    else return absence<G, P>();
  }

  AccOf<C, P> segment_total(const S* in, int64_t n) const {
    const auto total = [&]<class G>(G) FW_INLINED { return Work::template scan_packs<G>(in, n, [](int64_t, const auto&, auto) {}); };
    if constexpr (F::guarded) {
      clear_flags();
      const auto last = F::lift(total(F{}));
      settle(&last);
      if (!spoilt<F>()) return last;
      return carefully<C>(total);
    } else {
      return total(F{});
    }
  }

  // What each of eight whole segments, one after the other in memory, holds: side by side, one vector for all eight. The first
  // of those that lie `ahead` are fetched, if they do.
  static constexpr int fetched_by_totals = 4;
  template <class G>
  static FW_INLINE AccOf<G, 8> totals_of_eight(const S* in, int64_t ahead) {
    constexpr int64_t line = 64 / sizeof(S);
    AccOf<G, 8> so_far = absence<G, 8>();
    for (int64_t i = 0; i < segment_size; i += pack_size) {
      AccOf<G, 8> packs[8];
      repeat<8>([&](int s) FW_INLINED {
        const S* here = in + s * segment_size + i;
        if (s < fetched_by_totals && ahead && i % line == 0) ask_for(here, ahead);
        packs[s] = G::start(load<A, 8>(here));
      });
      so_far = G::merge(so_far, lasts_of_packs<G>(packs));
    }
    return so_far;
  }

  // The same for any run of segments of a line.
  void totals_of_line(const Place& at, int64_t first, int64_t last, AccOf<C, P>* totals, int64_t ahead) const {
    S gathered[8 * segment_size];
    for (int64_t s = first; s < last;) {
      const S* in = segment_in(at, s, gathered);
      if constexpr (!F::heavy) {
        if (s + 8 <= last && (s + 8) * segment_size <= count) {
          if (in == gathered) {
            for (int i = 1; i < 8; ++i) segment_in(at, s + i, gathered + i * segment_size);
          }
          clear_flags();
          const auto eight = F::lift(totals_of_eight<F>(in, ahead));
          settle(&eight);
          if (!spoilt<F>()) {
            for (int i = 0; i < 8; ++i, ++s) {
              *totals++ = remade<AccOf<C, P>>(
                  [i](const auto& p) { return splat<std::decay_t<decltype(p[0])>, P>(p[i]); }, eight);
            }
            continue;
          }
        }
      }
      *totals++ = segment_total(in, segment_length(s++));
    }
  }

  // Whether a pack goes past the caches as it is, and need not wait in the first one. (On AMD's processors that was not measured.)
  bool leaves_at_once(const char* out) const {
    return streams_packs<Out, A> && direct_out && !zen3 && !zen4 && !zen5 &&
           reinterpret_cast<std::uintptr_t>(out) % (P * sizeof(Out)) == 0;
  }

  void scan_segment_at(const Place& at, int64_t segment, Carry& carry, int64_t distance = prefetch_distance) {
    alignas(64) S gathered[segment_size];
    const int64_t n = segment_length(segment);
    const char* x = at.x + segment * segment_size * plan.along.x;
    char* out = at.out + (segment * segment_size + plan.shifted) * plan.along.out;
    const bool flows = reversed_out || (direct_out && streaming), piecewise = flows && !direct_in && !plan.nest_rank;
    const S* in = piecewise ? gathered : segment_in(at, segment, gathered);
    if (direct_out && !flows) return scan_segment(in, n, carry, reinterpret_cast<Out*>(out));
    if (flows) {
      const bool comes = streaming && !plan.nest_rank && std::abs(plan.along.x) <= 64;
      if (reversed_out) out -= (n - 1) * static_cast<int64_t>(sizeof(Out));
      if (streaming && leaves_at_once(out)) {
        Flow flow(*this, x, piecewise ? gathered : nullptr, comes ? distance : 0, n, nullptr);
        return scan_segment(in, n, carry, reinterpret_cast<Out*>(out), &flow, true);
      }
      // What the last results share a line with waits for memory: it had better come before they are there.
      if (streaming) __builtin_prefetch(reversed_out ? out : out + (n - 1) * static_cast<int64_t>(sizeof(Out)), 1, 3);
      Flow flow(*this, x, piecewise ? gathered : nullptr, comes ? distance : 0, n, streaming ? out : nullptr);
      scan_segment(in, n, carry, flow.results, &flow);
      if (streaming) flow.finish();
      else copy_backwards(reinterpret_cast<Out*>(out), flow.results + n - 1, n);
      return;
    }
    // Into another dtype: past the caches, too, where results lie in a row.
    const int64_t item = item_size(plan.sink.dtype);
    const bool leaves = plan.along.out == item && plan.lines * plan.length * item > stream_bytes;
    if (leaves && !plan.nest_rank && std::abs(plan.along.x) <= 64) fetch_ahead(x, n, plan.along.x, distance);
    A results[segment_size];
    scan_segment(in, n, carry, results);
    if (!leaves) return scatter(out, plan.along.out, results, n);
    alignas(64) char converted[segment_size * sizeof(int64_t)];
    scatter(converted, item, results, n);
    stream(out, converted, n * item);
  }

  // Whether so few lie side by side, and so densely, that shuffles take them apart and put them together again: SSE2's gain
  // little, and nothing for floats.
  static constexpr bool takes_apart = !small || vector_bytes > 16;
  bool interleaved(int64_t lines) const {
    if (!takes_apart || lines < 2 || lines > most_interleaved_words || !plan.source.direct || plan.nest_rank) return false;
    const Axis& inner = plan.kept[plan.kept_rank - 1];
    const int64_t in = sizeof(S), out = sizeof(Out), way = backwards ? -lines : lines;
    return inner.x == in && plan.along.x == way * in && inner.out == out && plan.along.out == way * out &&
           is_out(plan.sink.dtype);
  }

  void scan_together(const Place& at, int64_t lines, int64_t segment, Carry* carries,
                     int64_t distance = prefetch_distance) {
    if (!interleaved(lines)) {
      for (int64_t i = 0; i < lines; ++i) scan_segment_at(this->beside(at, i), segment, carries[i], distance);
      return;
    }
    const int64_t n = segment_length(segment);
    S rows[most_interleaved_words * segment_size];
    Out scanned[most_interleaved_words * segment_size], joined[most_interleaved_words * segment_size];
    take_apart(at, lines, segment, distance, rows);
    for (int64_t i = 0; i < lines; ++i) {
      scan_segment(rows + row_of(i, lines), n, carries[i], scanned + row_of(i, lines));
    }
    char* out = at.out + (segment * segment_size + plan.shifted) * plan.along.out;
    if (backwards) {
      out += (n - 1) * plan.along.out;
      interleave(joined, scanned, segment_size, lines, n);
      Out* turned = streaming ? scanned : reinterpret_cast<Out*>(out);
      copy_backwards(turned, joined + n * lines - 1, n * lines);
      if (streaming) stream(out, reinterpret_cast<const char*>(turned), n * lines * sizeof(Out));
    } else if (streaming) {
      interleave(joined, scanned, segment_size, lines, n);
      stream(out, reinterpret_cast<const char*>(joined), n * lines * sizeof(Out));
    } else {
      interleave(out, scanned, segment_size, lines, n);
    }
  }

  // A segment of interleaved lines as one row for each. Read backwards, the last line comes first.
  static constexpr int64_t most_words = most_interleaved_words * segment_size;
  void take_apart(const Place& at, int64_t lines, int64_t segment, int64_t distance, S* rows) const {
    const int64_t n = segment_length(segment);
    const char* x = at.x + segment * segment_size * plan.along.x;
    if (streaming) fetch_ahead(x, n, plan.along.x, distance);
    if (!backwards) return deinterleave(rows, segment_size, x, lines, n);
    S turned[most_words];
    copy_backwards(turned, reinterpret_cast<const S*>(x) + lines - 1, n * lines);
    deinterleave(rows, segment_size, turned, lines, n);
  }
  int64_t row_of(int64_t line, int64_t lines) const { return (backwards ? lines - 1 - line : line) * segment_size; }

  void totals_together(const Place& at, int64_t lines, int64_t segment, AccOf<C, P>* totals) const {
    S rows[most_words];
    const bool apart = interleaved(lines);
    if (apart) take_apart(at, lines, segment, prefetch_distance, rows);
    for (int64_t i = 0; i < lines; ++i) {
      const S* in = apart ? rows + row_of(i, lines) : segment_in(this->beside(at, i), segment, rows);
      totals[i] = segment_total(in, segment_length(segment));
    }
  }

  void scan_lines() {
    // Lines that lie interleaved are walked together, so that a cache line is fetched once for all of them.
    constexpr int64_t most_together = 16;
    const int64_t side_by_side = plan.columns_are_closer() ? plan.kept[plan.kept_rank - 1].size : 1;
    const int64_t together = side_by_side <= most_together ? side_by_side : 1;
    const int rank = together > 1 ? plan.kept_rank - 1 : plan.kept_rank;
    const int64_t groups = plan.lines / together;
    const int64_t group_bytes = together * count * static_cast<int64_t>(sizeof(S));
    if (thread_count() > 1 && groups < 2 * thread_count() && group_bytes >= Work::least_chained) {
      for (int64_t group = 0; group < groups; ++group) {
        const Place at = line(rank, group);
        scan_chained(at, together, group_bytes);
      }
      return;
    }
    this->share_lines(groups, group_bytes, [&](int64_t first, int64_t last) {
      Tiles<Carry> carries(together);
      for (int64_t group = first; group < last; ++group) {
        const Place at = line(rank, group);
        for (int64_t i = 0; i < together; ++i) {
          new (carries.data + i) Carry;
          write_identities(this->beside(at, i).out, 0, 1);
        }
        for (int64_t segment = 0; segment < segments; ++segment) scan_together(at, together, segment, carries.data);
      }
      finish_streaming();
    });
  }

  void scan_chained(const Place& at, int64_t lines, int64_t bytes) {
    Tiles<Carry> passed(lines);
    for (int64_t i = 0; i < lines; ++i) {
      new (passed.data + i) Carry;
      write_identities(this->beside(at, i).out, 0, 1);
    }
    Relay relay(segments, bytes, Relay::led);
    // The stretch that falls to this thread next is fetched meanwhile: some of it while totals are made, the rest while what is
    // in cache then is scanned.
    const int64_t next = relay.round() * segment_size * std::abs(plan.along.x);
    relay.run([&](const Relay::Stretch& stretch) {
      const auto [first, last] = std::pair(stretch.first, stretch.last);
      const bool now = !stretch.leads && lines == 1 && direct_in && streaming && !F::heavy;
      Tiles<AccOf<C, P>> totals(stretch.leads ? 0 : (last - first) * lines);
      if (!stretch.leads) {
        if (lines == 1) totals_of_line(at, first, last, totals.data, now ? next : 0);
        else for (int64_t s = first; s < last; ++s) totals_together(at, lines, s, totals.data + (s - first) * lines);
      }
      stretch.wait();
      Tiles<Carry> carries(lines);
      std::copy_n(passed.data, lines, carries.data);
      if (!stretch.leads) {
        for (int64_t t = 0; t < (last - first) * lines; ++t) passed.data[t % lines].advance(totals.data[t]);
        stretch.hand_on();
      }
      for (int64_t s = first; s < last; ++s) {
        const bool fetched = now && (s - first) % 8 < fetched_by_totals;
        scan_together(at, lines, s, carries.data, stretch.leads ? prefetch_distance : fetched ? 0 : next);
      }
      if (stretch.leads) {
        std::copy_n(carries.data, lines, passed.data);
        stretch.hand_on();
      }
      finish_streaming();
    });
  }
};

}  // namespace foldwise::FOLDWISE_ISA
