// Where the largest or the smallest element of a line is. No tree: the first (or last) of the extremes is one place,
// however it is looked for. NaN is more extreme than any number, as in Extreme.
#pragma once
#include <atomic>

#include "arg_columns.h"

namespace foldwise::FOLDWISE_ISA {

// The place of the first NaN, or the last, among `n` elements, which hold one.
template <class S, class A, int W>
FW_OUTLINE int64_t place_of_nan(const S* p, int64_t n, bool last) {
  for (int64_t seen = 0; seen < n; seen += W) {
    const int some = static_cast<int>(std::min<int64_t>(W, n - seen));
    const int64_t first = last ? n - seen - some : seen;
    unsigned where = 0;
    if (some == W) {
      const auto x = load<A, W>(p + first).v[0];
      where = lanes_where(x != x);
    } else {
      for (int i = 0; i < some; ++i) {
        const A x = load<A, 1>(p + first + i)[0];
        where |= unsigned{x != x} << i;
      }
    }
    if (where) return first + (last ? std::bit_width(where) - 1 : std::countr_zero(where));
  }
  return 0;
}

template <class S, class A, bool largest>
struct Arg : ArgColumns<S, A, largest> {
  using Work = ArgColumns<S, A, largest>;
  using typename Work::Fold, typename Work::T, typename Work::Index;
  using Work::W, Work::size, Work::plan, Work::reader, Work::count, Work::as_it_lies, Work::from_memory, Work::last, Work::exceeds, Work::more;
  static constexpr int64_t most = sizeof(S) < 4 ? 8192 / sizeof(S) : 1024, most_gathered = 1024;

  const int64_t block = as_it_lies ? most : most_gathered;
  const A top;  // of integers: no other displaces the first of these

  // `direct`: whether what lies there is of that dtype.
  Arg(const ScanPlan& p, bool direct)
      : Work(p, direct), top(p.source.dtype == Dtype::boolean ? A(largest) : Extreme<S, A, !largest>::absent()) {}
  explicit Arg(const ScanPlan& p) : Arg(p, p.source.direct) {}
  bool ends_search(A best) const { return std::is_integral_v<A> && !last && best == top; }

  // The best so far: its value, and the block it is in.
  struct Best {
    A value;
    int64_t block;
  };

  // Whether `x`, which comes later, takes the place of `held`.
  bool displaces(A x, A held) const { return last ? !exceeds(held, x) : exceeds(x, held); }

  bool run() {
    constexpr int64_t fewest_columns = 8;
    const int64_t short_line = lines_end_together() ? 10 : 24;  // alone, a short line costs more than its elements do
    const Axis* inner = plan.kept_rank ? &plan.kept[plan.kept_rank - 1] : nullptr;
    const bool together = inner && !plan.nest_rank && inner->size >= fewest_columns &&
                          (std::abs(inner->x) < std::abs(plan.along.x) || count <= short_line);
    if (together && count <= std::numeric_limits<Index>::max()) this->columns(*inner);
    else if (!searches_in_their_own_dtype()) lines();
    return true;
  }

  // Lines of integers that are widened to these elsewhere.
  bool searches_in_their_own_dtype() const {
    if constexpr (small || !std::is_same_v<S, int64_t>) return false;
    else if (plan.source.direct) return false;
    else return with_type(plan.source.dtype, [&](auto sample) {
      using Read = std::conditional_t<std::is_same_v<decltype(sample), bool>, std::uint8_t, decltype(sample)>;
      constexpr bool is_shorter = std::is_integral_v<Read> && sizeof(Read) < sizeof(S);
      if constexpr (is_shorter) Arg<Read, Read, largest>(this->plan, !this->plan.source.swapped).lines();
      return is_shorter;
    });
  }

  // ---- lines

  // Elements first.. of the block, at most `some`: where they lie, or gathered.
  FW_INLINE const S* block_at(const char* x, int64_t first, int64_t some, S* gathered) const {
    if (as_it_lies) return reinterpret_cast<const S*>(x) + first;
    if (plan.nest_rank) {
      Cursor from(plan.nest, plan.nest_rank, x, nullptr, first);
      reader.sequence(gathered, from, some);
    } else {
      reader(gathered, x + first * plan.along.x, nullptr, plan.along, some);
    }
    return gathered;
  }

  // Two vectors are compared with each other to learn whether either holds a NaN. What is far is asked for beside each line.
  template <bool far>
  static FW_INLINE A extreme_of(const S* p, int64_t n) {
    constexpr int group = 4;
    using V = typename Pack<A, W>::Vector;
    V best[group];
    repeat<group>([&](int g) FW_INLINED { best[g] = splat<A, W>(Fold::absent()).v[0]; });
    auto odd = best[0] != best[0];
    int64_t i = 0;
    const auto take = [&](auto&& next) FW_INLINED {
      for (; i + group * W <= n; i += group * W) {
        V x[group];
        repeat<group>([&](int g) FW_INLINED {
          x[g] = next(p + i + g * W, g).v[0];
          best[g] = more(x[g], best[g]);
        });
        if constexpr (std::is_floating_point_v<A>) {
          repeat<group / 2>([&](int g) FW_INLINED { odd |= unordered(x[2 * g], x[2 * g + 1]); });
        }
      }
    };
    if constexpr (!far && AcrossLines::pays && std::is_same_v<S, A>) {
      if (AcrossLines::suits(p) && n > 2 * group * W) {
        AcrossLines vectors(p);
        vectors.begin(p);
        take([&](const S*, int) FW_INLINED { return vectors.next<A>(); });
      }
    }
    take([](const S* here, int g) FW_INLINED {
      if (far && g * W * size % line_bytes == 0) ask_for_next(here, Ahead{row_prefetch_distance()});
      return load<A, W>(here);
    });
    for (; i < n; i += W) {
      const V x = i + W <= n ? load<A, W>(p + i).v[0] : T::load_some(p + i, n - i).value.v[0];
      best[0] = more(x, best[0]);
      if constexpr (std::is_floating_point_v<A>) odd |= x != x;
    }
    if constexpr (std::is_floating_point_v<A>) {
      if (lanes_where(odd)) return std::numeric_limits<A>::quiet_NaN();
    }
    const V all = more(more(best[0], best[1]), more(best[2], best[3]));
    return folded<Fold, W>(typename T::Acc{{all}}).value[0];
  }

  // The place of `value` among `n` elements, which hold it.
  FW_INLINE int64_t place_of(A value, const S* p, int64_t n) const {
    if constexpr (std::is_floating_point_v<A>) {
      if (value != value) return place_of_nan<S, A, W>(p, n, last);
    }
    return place_where(p, n, [value](auto x) FW_INLINED { return x == value; });
  }
  // Where something holds of an element, or -1. What is left over is searched with what was before it, again.
  template <class Holds>
  FW_INLINE int64_t place_where(const S* p, int64_t n, Holds&& holds) const {
    const auto found_in = [&](auto x) FW_INLINED -> uint64_t {
      if constexpr (sizeof(A) < 4) return short_lanes_where(holds(x));
      else return lanes_where(holds(x));
    };
    const auto found = [&](int64_t i) FW_INLINED { return found_in(load<A, W>(p + i).v[0]); };
    const auto place_in = [&](uint64_t where) { return last ? 63 - std::countl_zero(where) : std::countr_zero(where); };
    if (n < W) {
      const uint64_t where = found_in(T::load_some(p, n).value.v[0]) & ((uint64_t{1} << n) - 1);
      return where ? place_in(where) : -1;
    }
    if (last) {
      for (int64_t end = n; end > 0; end -= W) {
        const int64_t i = std::max<int64_t>(end - W, 0);
        if (const uint64_t where = found(i)) return i + place_in(where);
      }
      return -1;
    }
    int64_t next = 0;
    constexpr int some = std::min(4, 64 / W);
    for (; next + some * W <= n; next += some * W) {
      uint64_t where = 0;
      repeat<some>([&](int g) FW_INLINED { where |= found(next + g * W) << g * W; });
      if (where) return next + place_in(where);
    }
    for (; next < n; next += W) {
      const int64_t i = std::min(next, n - W);
      if (const uint64_t where = found(i)) return i + place_in(where);
    }
    return -1;
  }
  // Whatever is not 0 is true, and as large as any other truth.
  FW_INLINE int64_t place_of_truth(const S* p) const {
    const int64_t place = place_where(p, count, [](auto x) FW_INLINED { return largest ? x != 0 : x == 0; });
    return place >= 0 ? place : last ? count - 1 : 0;
  }

  // The better of two elements of a row, and where it is: of equals the first.
  struct Placed {
    using Source = S;
    using Value = A;
    static constexpr bool heavy = false;
    template <int N> struct Acc {
      Pack<A, N> value;
      Pack<Index, N> place;
      auto members() const { return std::tie(value, place); }
    };
    template <int N> static FW_INLINE Acc<N> merge(const Acc<N>& a, const Acc<N>& b) {
      const auto x = a.value.v[0], y = b.value.v[0];
      const auto p = a.place.v[0], q = b.place.v[0];
      const auto second = (largest ? y > x : y < x) | ((y == x) & (q < p));
      return {{second ? y : x}, {second ? q : p}};
    }
  };

  // A few rows in one look each, of which nothing depends on where it is: each lane keeps its best, and when it came; then the lanes of
  // as many rows as there are in a vector are compared together. A second look, which ends where it is, is mistaken about that once a
  // row, but of longer rows, sooner in shorter vectors, this takes longer; and it does not end with the largest of all integers.
  static constexpr int64_t most_kept =
      sizeof(A) < 4 ? 0 : vector_bytes == 64 ? (std::is_integral_v<A> ? 1024 : 4096) : vector_bytes == 32 ? 512 : 0;
  bool lines_end_together() const { return as_it_lies && !last && count <= most_kept; }
  template <bool far>
  FW_INLINE typename Placed::template Acc<W> best_in_row(const S* p) const {
    constexpr int group = 2;
    using V = typename Pack<A, W>::Vector;
    using Places = typename Pack<Index, W>::Vector;
    V best[group];
    Places at[group], now{};
    repeat<group>([&](int g) FW_INLINED {
      best[g] = splat<A, W>(Fold::absent()).v[0];
      at[g] = now - 1;
    });
    int64_t i = 0;
    const auto take = [&](int g, V x) FW_INLINED {
      if (far && g * W * size % line_bytes == 0) ask_for_next(p + i + g * W, Ahead{row_prefetch_distance()});
      const auto better = largest ? x > best[g] : x < best[g];
      at[g] = better ? now : at[g];
      if constexpr (std::is_floating_point_v<A>) x = by_itself(x);  // or GCC takes what the comparison chose, which is known later
      best[g] = more(x, best[g]);
    };
    const auto take_whole = [&](auto&& next) FW_INLINED {
      for (; i + group * W <= count; i += group * W, now += 1) {
        repeat<group>([&](int g) FW_INLINED { take(g, next(p + i + g * W).v[0]); });
      }
    };
    if constexpr (AcrossLines::pays && std::is_same_v<S, A>) {
      if (AcrossLines::suits(p) && count * size >= 16 * line_bytes) {
        AcrossLines vectors(p);
        vectors.begin(p);
        take_whole([&](const S*) FW_INLINED { return vectors.next<A>(); });
      }
    }
    take_whole([](const S* here) FW_INLINED { return load<A, W>(here); });
    repeat<group>([&](int g) FW_INLINED {
      const int64_t first = i + g * W;
      if (first >= count) return;
      take(g, first + W <= count ? load<A, W>(p + first).v[0] : T::load_some(p + first, count - first).value.v[0]);
    });
    typename Placed::template Acc<W> kept[group];
    repeat<group>([&](int g) FW_INLINED {
      kept[g] = {{best[g]}, {at[g] * static_cast<Index>(group * W) + (lane_numbers<Index, W>() + static_cast<Index>(g * W))}};
    });
    return Placed::merge(kept[0], kept[1]);
  }

  // At most as many as a vector has elements. Where the best is what absent elements count as, all elements are.
  void places_in_rows(Cursor& at, int64_t rows, bool far, Patience& kept) const {
    typename Placed::template Acc<W> best[W];
    const char* x[W];
    char* out[W];
    const bool tried = kept.lasts();
    if constexpr (Fold::guarded) clear_flags();
    for (int64_t r = 0; r < rows; ++r, at.advance(1)) {
      x[r] = at.x;
      out[r] = plan.sink.out + at.out;
      const S* row = reinterpret_cast<const S*>(x[r]);
      if (tried) best[r] = far ? best_in_row<true>(row) : best_in_row<false>(row);
    }
    settle(best);
    if (!tried || !kept.learn(!spoilt<Fold>())) {
      for (int64_t r = 0; r < rows; ++r) finish(x[r], out[r], best_of(x[r], 0, count));
      return;
    }
    std::fill(best + rows, best + W, best[0]);
    Index places[W];
    store(places, fold_across<Placed>(best).place);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t place = std::clamp<int64_t>(places[r], 0, count - 1);
      std::memcpy(out[r], &place, sizeof place);
    }
  }

  Best best_of(const char* x, int64_t first, int64_t end) const {
    S gathered[std::max(most, most_gathered)];
    Best best{Fold::absent(), first / block};
    for (int64_t at = first; at < end; at += block) {
      const int64_t some = std::min(block, end - at);
      const S* here = block_at(x, at, some, gathered);
      const A value = small || (as_it_lies && from_memory) ? extreme_of<true>(here, some) : extreme_of<false>(here, some);
      if (at == first || displaces(value, best.value)) best = {value, at / block};
      if (ends_search(best.value)) break;
    }
    return best;
  }

  void finish(const char* x, char* out, const Best& best) const {
    S gathered[std::max(most, most_gathered)];
    const int64_t first = best.block * block, some = std::min(block, count - first);
    const int64_t place = first + place_of(best.value, block_at(x, first, some, gathered), some);
    std::memcpy(out, &place, sizeof place);
  }

  void lines() {
    if constexpr (size == 1) {
      if (as_it_lies && plan.source.dtype == Dtype::boolean) return lines_of_truths();
    }
    const int64_t chunk = std::max<int64_t>(1, task_bytes / (block * size)) * block;
    if (plan.lines < 2 * thread_count() && threads_for(count * size) > 1) {
      const int64_t chunks = (count + chunk - 1) / chunk;
      Tiles<Best> parts(chunks);
      for (int64_t line = 0; line < plan.lines; ++line) {
        const Cursor at(plan.kept, plan.kept_rank, plan.source.x, nullptr, line);
        std::atomic<int64_t> ended{chunks};  // the first known chunk behind which there is nothing to search
        parallel(chunks, [&](int64_t c) {
          int64_t first = ended.load(std::memory_order_relaxed);
          parts.data[c] = c > first ? Best{Fold::absent(), 0} : best_of(at.x, c * chunk, std::min(count, (c + 1) * chunk));
          if (ends_search(parts.data[c].value)) {
            while (c < first && !ended.compare_exchange_weak(first, c, std::memory_order_relaxed)) {}
          }
        });
        Best best = parts.data[0];
        for (int64_t c = 1; c < chunks; ++c) {
          if (displaces(parts.data[c].value, best.value)) best = parts.data[c];
        }
        finish(at.x, plan.sink.out + at.out, best);
      }
      return;
    }
    share(plan.lines, count * size, [&](int64_t from, int64_t to) {
      Cursor at(plan.kept, plan.kept_rank, plan.source.x, nullptr, from);
      if constexpr (most_kept > 0) {
        if (lines_end_together()) {
          const bool adjoin = plan.kept_rank && plan.kept[plan.kept_rank - 1].x == count * size;
          const bool far = from_memory && (adjoin || count * size >= prefetch_distance);  // what lies between rows is not asked for
          Patience kept;
          for (int64_t line = from; line < to; line += W) places_in_rows(at, std::min<int64_t>(W, to - line), far, kept);
          return;
        }
      }
      for (int64_t line = from; line < to; ++line, at.advance(1)) {
        finish(at.x, plan.sink.out + at.out, best_of(at.x, 0, count));
      }
    });
  }
  void lines_of_truths() {
    share(plan.lines, count * size, [&](int64_t from, int64_t to) {
      Cursor at(plan.kept, plan.kept_rank, plan.source.x, nullptr, from);
      for (int64_t line = from; line < to; ++line, at.advance(1)) {
        const int64_t place = place_of_truth(reinterpret_cast<const S*>(at.x));
        std::memcpy(plan.sink.out + at.out, &place, sizeof place);
      }
    });
  }
};

template <class S, class A>
struct ArgMax {
  using Value = A;
  static constexpr bool signless = false;
  static bool place(const ScanPlan& plan) { return Arg<S, A, true>(plan).run(); }
};

template <class S, class A>
struct ArgMin {
  using Value = A;
  static constexpr bool signless = false;
  static bool place(const ScanPlan& plan) { return Arg<S, A, false>(plan).run(); }
};

}  // namespace foldwise::FOLDWISE_ISA
