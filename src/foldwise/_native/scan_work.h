// What every way of scanning shares: the plan, places in it, and packs of one segment.
#pragma once
#include "interleave.h"
#include "reduce.h"

namespace foldwise::FOLDWISE_ISA {

constexpr int64_t segment_size = 1024;

template <class F>
struct ScanWork {
  using S = typename F::Source;
  using A = typename F::Value;
  using C = typename F::Careful;
  using Out = std::conditional_t<std::is_integral_v<A>, A, S>;  // what a kernel writes by itself
  static constexpr int W = native<A>;
  static constexpr int P = W > pack_size ? W : pack_size;  // as many packs at a time as a vector holds

  // Packs that take the steps to their prefixes together, as there are registers for it: one after the other, each step waits for the one
  // before. What need not be converted waits for memory rather.
  template <class G>
  static constexpr int packs_at_once = vector_bytes == 64 && !small && !G::heavy && !has_plain_parts<G> && !std::is_same_v<S, A> ? 4 : 1;

  // A scan writes, too, and does more with an element, of whatever dtype.
  static constexpr int64_t least_shared = std::min<int64_t>(1 << 20, (1 << 17) * sizeof(S)), least_chained = 2 << 20;

  const ScanPlan& plan;
  const Reader<S> reader;
  const Scatter<A> scatter;
  const int64_t count;     // elements scanned per line
  const int64_t segments;  // per line
  const bool direct_in, direct_out, reversed_out, streaming;
  std::atomic<bool> fits{true};

  template <class T>
  static constexpr bool alike =
      std::is_same_v<T, Out> || (std::is_integral_v<T> && std::is_integral_v<Out> && sizeof(T) == sizeof(Out));
  static bool is_out(Dtype dtype) {
    return with_type(dtype, [](auto sample) { return alike<decltype(sample)>; });
  }

  explicit ScanWork(const ScanPlan& p)
      : plan(p),
        reader(p.source, absent_source<S, A>(F::absent())),
        scatter(scatter_for<A>(p.sink.dtype)),
        count(p.shifted ? p.length - 1 : p.length),
        segments((count + segment_size - 1) / segment_size),
        direct_in(p.source.direct && !p.nest_rank && p.along.x == static_cast<int64_t>(sizeof(S))),
        direct_out(is_out(p.sink.dtype) && p.along.out == static_cast<int64_t>(sizeof(Out))),
        reversed_out(is_out(p.sink.dtype) && p.along.out == -static_cast<int64_t>(sizeof(Out))),
        streaming(is_out(p.sink.dtype) && p.lines * p.length * static_cast<int64_t>(sizeof(Out)) > stream_bytes) {}

  // Side by side, lines are in each other's way: a processor fetches what lies beyond its own, which others write. On Zen 4 that takes
  // most of the time; there each thread has two strips of columns, and while all do their first ones, nobody writes what lies beside them.
  static constexpr Worth worth_of_lines{least_shared, least_shared, 2 * least_shared};
  static Worth worth_of_columns() {
    return {lines_come_in_pairs ? 2 * least_shared : least_shared, 2 * least_shared, 2 * least_shared};
  }
  // So many columns, or fewer where that gives each thread a strip of them, or the two. strips_of(width): how many there are.
  template <class StripsOf>
  static int64_t strip_width(int64_t most, int64_t least, int threads, bool may_be_two, StripsOf&& strips_of) {
    const int64_t fewest = threads > 1 && may_be_two && lines_come_in_pairs ? 2 * threads : threads;
    while (most > least && strips_of(most) < fewest) most /= 2;
    return most;
  }
  static void share_lines(int64_t units, int64_t unit_bytes, Pieces pieces, Worth worth = worth_of_lines) {
    share(units, unit_bytes, pieces, worth);
  }

  // A line, or a place in one.
  struct Place {
    const char* x;
    char* out;
    char* carried = nullptr;  // see ScanPlan
  };
  Place line(int rank, int64_t index) const {
    const Cursor at(plan.kept, rank, plan.source.x, plan.carried, index);
    return {at.x, plan.sink.out + at.out, const_cast<char*>(at.mask)};
  }

  // The line so many further on among those side by side.
  Place beside(const Place& at, int64_t i) const {
    if (i == 0) return at;
    const Axis& inner = plan.kept[plan.kept_rank - 1];
    return {at.x + i * inner.x, at.out + i * inner.out};
  }

  // `lines` places, `stride` apart, where a shifted scan begins.
  void write_identities(char* out, int64_t stride, int64_t lines) const {
    if (!plan.shifted) return;
    A identities[segment_size];
    std::fill_n(identities, std::min(lines, segment_size), initial_of<A>(plan.finish));
    for (int64_t done = 0; done < lines; done += segment_size) {
      scatter(out + done * stride, stride, identities, std::min(segment_size, lines - done));
    }
  }
  int64_t segment_length(int64_t segment) const { return std::min(segment_size, count - segment * segment_size); }

  // The segment's elements: as they lie, or gathered.
  const S* segment_in(const Place& at, int64_t segment, S* gathered) const {
    const char* x = at.x + segment * segment_size * plan.along.x;
    if (direct_in) return reinterpret_cast<const S*>(x);
    if (plan.nest_rank) {
      Cursor from(plan.nest, plan.nest_rank, at.x, nullptr, segment * segment_size);
      reader.sequence(gathered, from, segment_length(segment));
    } else {
      reader(gathered, x, nullptr, plan.along, segment_length(segment));
    }
    return gathered;
  }

  void note(bool fit) {
    if (!fit) fits.store(false, std::memory_order_relaxed);
  }

  // A pack is eight elements, or where neighbours may be regrouped all that are taken at a time.
  template <class G, int N> static constexpr int pack_of = regroups<G> ? N : pack_size;

  // Whether what does not fill a pack takes the same step in the code as what does: one that is long.
  template <class G> static constexpr bool steps_alike = G::heavy || has_plain_parts<G> || is_rare<G>;

  // Packs of one segment, each placed on the carry and handed to write(index, pack, whole). Returns what the segment holds, after
  // what there was before.
  template <class G, int N = P, int at_once = packs_at_once<G>, class Write>
  static FW_INLINE AccOf<G, N> scan_packs(const S* in, int64_t n, Write&& write, AccOf<G, N> so_far = absence<G, N>()) {
    const auto step = [&](const Pack<A, N>& x, int64_t i, auto whole) FW_INLINED {
      write(i, placed<G, N>(prefixes<G>(x), so_far), whole);
    };
    int64_t i = 0;
    if constexpr (at_once > 1) {
      for (; i + at_once * N <= n; i += at_once * N) {
        const auto all = prefix_of_packs<G, at_once * N, 1, pack_of<G, N>>(G::start(load<A, at_once * N>(in + i)));
        repeat<at_once>([&](int p) FW_INLINED {
          const auto one = remade<AccOf<G, N>>([p](const auto& pack) FW_INLINED { return part<N>(pack, p); }, all);
          write(i + p * N, placed<G, N>(one, so_far), std::true_type{});
        });
      }
    }
    if constexpr (steps_alike<G>) {
      for (; i < n; i += N) {
        const bool whole = i + N <= n;
        step(whole ? load<A, N>(in + i) : load_some<A, N>(in + i, static_cast<int>(n - i), F::absent()), i, whole);
      }
    } else {
#pragma GCC unroll 2
      for (; i + N <= n; i += N) step(load<A, N>(in + i), i, std::true_type{});
      if (i < n) step(load_some<A, N>(in + i, static_cast<int>(n - i), F::absent()), i, std::false_type{});
    }
    return so_far;
  }

  // What packs hold by themselves; in plain arithmetic, where a careful one has nothing to add.
  template <class G, int N>
  static FW_INLINE AccOf<G, N> prefixes(const Pack<A, N>& x) {
    if constexpr (has_plain_parts<G>) {
      if (G::is_moderate(x)) return G::Plain::lift(prefix_of_packs<typename G::Plain, N>(G::Plain::start(x)));
    }
    return prefix_of_packs<G, N, 1, pack_of<G, N>>(G::start(x));
  }

  template <class G, int N>  // a result with nothing before it
  static FW_INLINE Pack<A, N> alone(const AccOf<G, N>& local, Judge& judge) {
    if constexpr (is_judged<G>) return G::judged(local, judge);
    else return G::result(local);
  }
};

// The names of ScanWork, for the structs made from it.
#define FOLDWISE_SCAN_WORK(F)                                                                                       \
  using Work = ScanWork<F>;                                                                                         \
  using Work::plan, Work::reader, Work::scatter, Work::count, Work::segments, Work::direct_in, Work::direct_out;     \
  using Work::reversed_out, Work::streaming, Work::fits, Work::note, Work::line, Work::is_out, Work::write_identities; \
  using Work::segment_in, Work::segment_length;                                                                     \
  using Work::W, Work::P;                                                                                           \
  using typename Work::S, typename Work::A, typename Work::C, typename Work::Out, typename Work::Place;

}  // namespace foldwise::FOLDWISE_ISA
