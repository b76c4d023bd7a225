// One struct per fold: what it accumulates, how one more element or another accumulator joins, how it ends.
//
//   Source, Value     what is read, and the type it is folded in
//   Acc<N>            the running state of N neighbouring outputs, as packs
//   absent()          the value that changes nothing, for places with no element
//   start, merge      an accumulator of one element; two accumulators, the left one's elements first
//   join              an accumulator and one more element, where that has a shorter way to the same bits
//   result            what the accumulator stands for; judged, of integers, exactly; root, its root where that reaches further
//   Careful, lift     the fold in arithmetic that cannot leave its range; the same type where none is needed
//   Plain             of a careful fold that knows elements which need no care: the fold that is enough for any eight of those;
//                     is_moderate tells them, join_moderate joins up to eight
//   merge_inlined     merge as a part of the loop that calls it, where merge itself is none
//   guarded, flags    whether plain results need a check, and what the floating-point unit must not have noted
//   heavy             whether a step is so long that loops are not unrolled
//   rare              whether it is but what a guarded fold falls back on
//   InScans           the fold to scan with, where that is another
//   of_truths         whether the bits of elements are asked, of which one may say what all come to
//   chooses           whether an element that is folded twice makes no difference: what comes out is one of them, or a truth
//   is_ended          whether what comes out may be asked for its mean, root or logarithm
//   is_scanned_short  whether integers that it widens have a scan of their own for results as short as they are, which wrap
//   signless          whether integers of either sign fold alike, so that one kernel serves both
//   Carry             what a scan hands from one segment to the next: emit places a pack on it, advance moves it on
#pragma once
#include <array>
#include <cmath>
#include <tuple>

#include "elementary.h"
#include "load_store.h"

namespace foldwise::FOLDWISE_ISA {

// 256 bytes of accumulators whatever the ISA; 32 steps make a block.
template <class A> constexpr int lanes_of = 256 / static_cast<int>(sizeof(A));
constexpr int steps_per_block = 32;

// What a fold of S is accumulated in: by a reduction, and by a scan.
struct Own {
  template <class S> struct Reduced { using type = S; };
  template <class S> struct Scanned : Reduced<S> {};
};
template <> struct Own::Reduced<half> { using type = float; };
template <> struct Own::Reduced<bfloat> { using type = float; };
template <> struct Own::Reduced<std::uint8_t> { using type = void; };  // read as 64 bits
template <> struct Own::Reduced<std::uint16_t> { using type = void; };
template <> struct Own::Reduced<std::int8_t> { using type = void; };
template <> struct Own::Reduced<std::int16_t> { using type = void; };

// Where nothing outgrows the elements: short integers as they lie. Scans of them are not worth kernels of their own.
struct Narrow {
  template <class S> struct Reduced : Own::Reduced<S> {};
  template <class S> struct Scanned : Own::Reduced<S> {};
};
template <> struct Narrow::Reduced<std::uint8_t> { using type = std::uint8_t; };
template <> struct Narrow::Reduced<std::uint16_t> { using type = std::uint16_t; };
template <> struct Narrow::Reduced<std::int8_t> { using type = std::int8_t; };
template <> struct Narrow::Reduced<std::int16_t> { using type = std::int16_t; };

// Truths: the bits of elements as they lie. Of sixteen-bit floats one kind is asked like the other.
struct Raw {
  template <class S> struct Reduced : Own::Reduced<S> {};
  template <class S> struct Scanned : Own::Reduced<S> {};
};
template <> struct Raw::Reduced<std::uint8_t> { using type = std::uint8_t; };
template <> struct Raw::Reduced<std::int16_t> { using type = std::uint16_t; };
template <> struct Raw::Reduced<std::int32_t> { using type = std::uint32_t; };
template <> struct Raw::Reduced<int64_t> { using type = uint64_t; };
template <> struct Raw::Reduced<half> { using type = std::uint16_t; };
template <> struct Raw::Reduced<float> { using type = std::uint32_t; };
template <> struct Raw::Reduced<double> { using type = uint64_t; };
template <> struct Raw::Reduced<bfloat> { using type = void; };

// A running sum or product of float32 in float64 costs nothing next to memory, and leaves one rounding per element.
struct Wide {
  template <class S> struct Reduced : Own::Reduced<S> {};
  template <class S> struct Scanned : Reduced<S> {};
};
template <> struct Wide::Reduced<std::int32_t> { using type = int64_t; };
template <> struct Wide::Scanned<float> { using type = double; };

// Where squares of float16 and float32 neither overflow nor underflow.
struct Squared {
  template <class S> struct Reduced : Wide::Reduced<S> {};
  template <class S> struct Scanned : Reduced<S> {};
};
template <> struct Squared::Reduced<float> { using type = double; };

// Only floats: integers are converted before.
struct Real {
  template <class S> struct Reduced : Own::Reduced<S> {};
  template <class S> struct Scanned : Reduced<S> {};
};
template <> struct Real::Reduced<std::int32_t> { using type = void; };
template <> struct Real::Reduced<int64_t> { using type = void; };
template <> struct Real::Reduced<uint64_t> { using type = void; };

// Whether to try what has failed: each failure in a row leaves out more tries than the one before.
class Patience {
  int untried_ = 0, next_;

 public:
  explicit Patience(int first = 0) : next_(first) {}
  bool lasts() {
    if (untried_ == 0) return true;
    --untried_;
    return false;
  }
  bool learn(bool good) {
    untried_ = good ? 0 : next_;
    next_ = good ? 0 : std::min(4 * next_ + 3, 63);
    return good;
  }
};

// The initial value, or a scan's identity, as the accumulator's type.
template <class A>
FW_INLINE A initial_of(const Finish& finish) {
  if constexpr (std::is_floating_point_v<A>) return static_cast<A>(finish.number);
  else return static_cast<A>(finish.integer);
}

// total / count, rounded once.
inline double quotient(__int128 total, int64_t count) {
  const bool negative = total < 0;
  unsigned __int128 size = negative ? -static_cast<unsigned __int128>(total) : static_cast<unsigned __int128>(total);
  double result;
  if (size >> 53 == 0 && count >> 53 == 0) {
    result = static_cast<double>(static_cast<int64_t>(size)) / static_cast<double>(count);
  } else {
    // More bits than a double has, the last of them set when anything was lost.
    int up = 0;
    for (; size >> 126 == 0; size <<= 1) ++up;
    const unsigned __int128 whole = size / static_cast<uint64_t>(count);
    const bool lost = size % static_cast<uint64_t>(count) != 0;
    result = static_cast<double>(whole | lost) * std::bit_cast<double>(uint64_t(1023 - up) << 52);
  }
  return negative ? -result : result;
}

// What the output dtype can hold; whether anything did not fit.
struct Judge {
  const Finish& finish;
  bool fits = true;

  uint64_t operator()(__int128 exact) {
    if (finish.ending == Ending::ratio) return std::bit_cast<uint64_t>(quotient(exact, finish.count));
    if (finish.ending == Ending::mean) exact /= finish.count;
    if (exact >= finish.lowest && exact <= finish.highest) return static_cast<uint64_t>(exact);
    fits = false;
    return static_cast<uint64_t>(exact < finish.lowest ? finish.lowest : finish.highest);
  }
};

// Built for size, or of elements so short that nothing else takes as little time: of several ways, the one that serves always.
template <class Fold> constexpr bool one_way = small || (std::is_integral_v<typename Fold::Source> && sizeof(typename Fold::Source) < 4);

template <class Fold> constexpr bool is_rare = requires { requires Fold::rare; };

template <class Fold> constexpr bool has_plain_parts = requires { typename Fold::Plain; };

template <class Fold> constexpr bool is_judged = requires { &Fold::template judged<1>; };

// Whether elements may be folded in any order: integers that wrap, and truths. (Of zeros of both signs an extreme is the right one.)
template <class Fold> constexpr bool of_truths = requires { Fold::of_truths; };
template <class Fold>
constexpr bool any_order = (std::is_integral_v<typename Fold::Value> && !is_judged<Fold>) || of_truths<Fold>;
template <class Fold> constexpr bool chooses = requires { Fold::chooses; };
// Whether an element may be folded twice, too.
template <class Fold> constexpr bool may_repeat = any_order<Fold> && chooses<Fold>;
// Whether it makes no difference which neighbours are folded first: a tree, and one after the other, give the same bits.
template <class Fold> constexpr bool regroups = any_order<Fold> || chooses<Fold>;

// ---- what a scan hands from one segment to the next

// Wherever a fold has no carry of its own, it is the accumulator of all that came before.
template <class Fold, int N>
struct MergeCarry {
  using A = typename Fold::Value;
  typename Fold::template Acc<N> before = Fold::start(splat<A, N>(Fold::absent()));

  static constexpr bool plain() { return true; }
  template <class>
  FW_INLINE Pack<A, N> emit(const typename Fold::template Acc<N>& local, Judge& judge) const {
    const auto whole = Fold::merge(before, local);
    if constexpr (is_judged<Fold>) return Fold::judged(whole, judge);
    else return Fold::result(whole);
  }
  FW_INLINE void advance(const typename Fold::template Acc<N>& last) { before = Fold::merge(before, last); }
};

// And where neighbours may be regrouped, it is what the next segment begins with.
template <class Fold, int N>
struct RunningCarry {
  typename Fold::template Acc<N> before = Fold::start(splat<typename Fold::Value, N>(Fold::absent()));

  static constexpr bool plain() { return true; }
  template <class>
  FW_INLINE Pack<typename Fold::Value, N> emit(const typename Fold::template Acc<N>& whole, Judge&) const { return Fold::result(whole); }
  FW_INLINE void advance(const typename Fold::template Acc<N>& last) { before = Fold::merge(before, last); }
};

template <class Fold, int N>
struct CarryFor { using type = std::conditional_t<regroups<Fold>, RunningCarry<Fold, N>, MergeCarry<Fold, N>>; };
template <class Fold, int N>
  requires requires { typename Fold::template Carry<N>; }
struct CarryFor<Fold, N> { using type = typename Fold::template Carry<N>; };
template <class Fold, int N>
using CarryOf = typename CarryFor<typename Fold::Careful, N>::type;

// ---- accumulators seen whole

template <class To, class F, class... From>
FW_INLINE To remade(F&& f, const From&... from) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) FW_INLINED {
    const auto member = [&](auto index) FW_INLINED { return f(std::get<index>(from.members())...); };
    return To{member(std::integral_constant<std::size_t, I>{})...};
  }(std::make_index_sequence<std::tuple_size_v<decltype(std::declval<To>().members())>>{});
}

// G accumulators, each one vector wide, as one.
template <class To, int G, class From>
FW_INLINE To side_by_side(const From* from) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) FW_INLINED {
    const auto member = [&](auto index) FW_INLINED {
      std::decay_t<decltype(std::get<index>(std::declval<To>().members()))> all;
      repeat<G>([&](int g) FW_INLINED { all.v[g] = std::get<index>(from[g].members()).v[0]; });
      return all;
    };
    return To{member(std::integral_constant<std::size_t, I>{})...};
  }(std::make_index_sequence<std::tuple_size_v<decltype(std::declval<To>().members())>>{});
}

// One accumulator: the left half of the elements merged with the right half, again and again.
template <class Fold, int N>
FW_INLINE typename Fold::template Acc<1> folded(const typename Fold::template Acc<N>& a) {
  if constexpr (N == 1) {
    return a;
  } else if constexpr (of_truths<Fold> && N * sizeof(typename Fold::Value) == 16) {
    return {splat<typename Fold::Value, 1>(Fold::of_words(std::bit_cast<std::array<uint64_t, 2>>(a.value.v[0])))};
  } else {
    using Half = typename Fold::template Acc<N / 2>;
    return folded<Fold, N / 2>(Fold::merge(remade<Half>([](const auto& p) { return lower(p); }, a),
                                           remade<Half>([](const auto& p) { return upper(p); }, a)));
  }
}

template <class Fold, int N>
FW_INLINE typename Fold::template Acc<1> element(const typename Fold::template Acc<N>& a, int i) {
  return remade<typename Fold::template Acc<1>>([i](const auto& p) { return splat<std::decay_t<decltype(p[0])>, 1>(p[i]); }, a);
}

template <class Fold, int N>
FW_INLINE typename Fold::template Acc<N> absence() {
  return Fold::start(splat<typename Fold::Value, N>(Fold::absent()));
}

template <class Fold> constexpr bool is_ended = requires { requires Fold::is_ended; };

// What is done to floats at the very end.
template <class Fold, int N>
FW_INLINE Pack<typename Fold::Value, N> ended_float(const typename Fold::template Acc<N>& a, const Finish& finish) {
  using A = typename Fold::Value;
  if constexpr (requires { Fold::root(a); }) {
    if (finish.ending == Ending::root) return Fold::root(a);
  }
  const Pack<A, N> whole = Fold::result(a);
  if (finish.ending == Ending::log) return log(whole);
  A memory[N];
  store(memory, whole);
  if (finish.ending == Ending::root) {
    for (A& each : memory) each = std::sqrt(each);
    return load<A, N>(memory);
  }
  // A number over a count that has no more digits than it: doubles would give the same float.
  if (constexpr int64_t most = int64_t{1} << std::numeric_limits<A>::digits; std::is_same_v<A, double> || finish.count <= most) {
    return each([count = static_cast<A>(finish.count)](auto v) FW_INLINED { return v / (count - decltype(v){}); }, whole);
  }
  for (A& each : memory) each = static_cast<A>(static_cast<double>(each) / static_cast<double>(finish.count));
  return load<A, N>(memory);
}

// Doubles hold whole numbers of so many bits, signs included, and divide them as they should be. False if not all are as small.
template <class A, int N, class Out>
FW_INLINE bool divide_small(const Pack<A, N>& sums, int64_t count, Out* quotients) {
  constexpr int bits = 52;
  typedef typename VectorOf<uint64_t, Pack<A, N>::width>::type Words;
  typedef typename VectorOf<double, Pack<A, N>::width>::type Doubles;
  Words beyond{};
  for (auto sum : sums.v) beyond |= ((Words)sum + (uint64_t{1} << (bits - 1))) >> bits;
  if (lanes_where(beyond != 0) || count >> bits) return false;
  for (int c = 0; c < Pack<A, N>::chunks; ++c) {
    const auto whole = std::bit_cast<Doubles>((Words)sums.v[c] + std::bit_cast<uint64_t>(0x1.8p52)) - 0x1.8p52;
    store_vector(quotients + c * Pack<A, N>::width, whole / static_cast<double>(count));
  }
  return true;
}

// The same of integers, too; false when one did not fit.
template <class Fold, int N>
FW_OUTLINE bool ended(const typename Fold::template Acc<N>& a, const Finish& finish, typename Fold::Value* out) {
  if constexpr (std::is_floating_point_v<typename Fold::Value>) {
    store(out, canonical(ended_float<Fold, N>(a, finish)));
    return true;
  } else {
    const auto whole = Fold::result(a);
    if constexpr (std::is_same_v<typename Fold::Value, int64_t>) {
      if (finish.ending == Ending::ratio && divide_small(whole, finish.count, out)) return true;
    }
    Judge judge{finish};
    for (int i = 0; i < N; ++i) out[i] = static_cast<typename Fold::Value>(judge(whole[i]));
    return judge.fits;
  }
}

// The result, with the initial value on its left; false when a judged integer did not fit.
template <class Fold, int N>
FW_STEP bool finished(const typename Fold::template Acc<N>& a, const Finish& finish, typename Fold::Value* out) {
  using A = typename Fold::Value;
  const auto whole = Fold::merge(Fold::start(splat<A, N>(initial_of<A>(finish))), a);
  if constexpr (is_judged<Fold>) {
    Judge judge{finish};
    store(out, Fold::judged(whole, judge));
    return judge.fits;
  } else {
    if constexpr (is_ended<Fold>) {
      if (finish.ending != Ending::none) return ended<Fold, N>(whole, finish, out);
    }
    store(out, canonical(Fold::result(whole)));
    return true;
  }
}

}  // namespace foldwise::FOLDWISE_ISA
