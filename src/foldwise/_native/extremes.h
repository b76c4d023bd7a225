// Folds that choose: the largest and the smallest, whether all or any are true.
#pragma once
#include "fold.h"

namespace foldwise::FOLDWISE_ISA {

template <class A, int N>
struct Chosen {
  Pack<A, N> value;
  auto members() const { return std::tie(value); }
};

// A NaN is more extreme than any number. Of zeros of both signs the right one stays.
template <class S, class A, bool largest, bool is_rare>
struct CarefulExtreme {
  using Source = S;
  using Value = A;
  using Careful = CarefulExtreme;
  static constexpr bool guarded = false, heavy = is_rare, rare = is_rare, signless = false, chooses = true;
  template <int N> using Acc = Chosen<A, N>;

  static constexpr A absent() {
    using Limits = std::numeric_limits<A>;
    if constexpr (std::is_floating_point_v<A>) return largest ? -Limits::infinity() : Limits::infinity();
    else return largest ? Limits::lowest() : Limits::max();
  }
  template <int N> static FW_INLINE Acc<N> start(const Pack<A, N>& x) { return {x}; }
  template <int N> static FW_INLINE Acc<N> merge(const Acc<N>& a, const Acc<N>& b) {
    return {each([](auto p, auto q) FW_INLINED {
      const auto more = [&](auto x) FW_INLINED { return largest ? (x > q ? x : q) : (x < q ? x : q); };
      if constexpr (std::is_floating_point_v<A>) return p == p ? more(by_itself(p)) : p;  // GCC would compare twice instead
      else return more(p);
    }, a.value, b.value)};
  }
  template <int N> static FW_INLINE Acc<N> lift(const Acc<N>& a) { return a; }
  template <int N> static FW_INLINE Pack<A, N> result(const Acc<N>& a) { return a.value; }
};

// The same where there is no NaN: comparing one is noted.
template <class S, class A, bool largest>
struct Extreme : CarefulExtreme<S, A, largest, false> {
  using InScans = CarefulExtreme<S, A, largest, false>;
  static constexpr bool guarded = std::is_floating_point_v<A>;
  static constexpr unsigned flags = flag_of_invalid;
  using Careful = std::conditional_t<guarded, CarefulExtreme<S, A, largest, true>, Extreme>;
  template <int N> using Acc = Chosen<A, N>;

  template <int N> static FW_INLINE Acc<N> merge(const Acc<N>& a, const Acc<N>& b) {
    return {each([](auto p, auto q) { return largest ? (p > q ? p : q) : (p < q ? p : q); }, a.value, b.value)};
  }
};

template <class S, class A> using Max = Extreme<S, A, true>;
template <class S, class A> using Min = Extreme<S, A, false>;

// Whether any or all elements are not 0, of which their bits tell: any of them together; all of them by the least, where there is an
// instruction for it, or else by those that are 0. A NaN is not 0, and either zero is.
template <class S, class A, bool any>
struct Truth {
  using Source = S;
  using Value = A;
  using Careful = Truth;
  static constexpr bool guarded = false, heavy = false, signless = true, chooses = true, of_truths = true;
  static constexpr bool by_least = !any && (sizeof(A) == 1 || vector_bytes == 64 || (vector_bytes == 32 && sizeof(A) < 8));
  template <int N> using Acc = Chosen<A, N>;

  static constexpr A absent() { return any ? A(0) : A(-1); }
  template <int N> static FW_INLINE Acc<N> start(const Pack<A, N>& x) {
    return {each([](auto bits) FW_INLINED {
      using Words = decltype(bits);
      if constexpr (!any && !by_least && std::is_floating_point_v<S>) {
        return (Words)(std::bit_cast<typename VectorOf<S, sizeof(Words) / sizeof(S)>::type>(bits) == 0);
      }
      if constexpr (!std::is_integral_v<S>) bits &= A(-1) >> 1;
      if constexpr (any || by_least) return bits;
      else return (Words)(bits == 0);
    }, x)};
  }
  template <int N> static FW_INLINE Acc<N> merge(const Acc<N>& a, const Acc<N>& b) {
    return {each([](auto p, auto q) FW_INLINED {
      if constexpr (by_least) return p < q ? p : q;
      else return p | q;
    }, a.value, b.value)};
  }
  template <int N> static FW_INLINE Acc<N> lift(const Acc<N>& a) { return a; }
  template <int N> static FW_INLINE Pack<A, N> result(const Acc<N>& a) {
    return each([](auto p) FW_INLINED { return ((any || by_least) ? p != 0 : p == 0) ? p - p + A(1) : p - p; }, a.value);
  }
  // All accumulators, in two words, as one.
  static FW_INLINE A of_words(const std::array<uint64_t, 2>& words) {
    if constexpr (!by_least) return (words[0] | words[1]) != 0;
    constexpr uint64_t ones = ~uint64_t{0} / A(-1), highest = ones << (8 * sizeof(A) - 1);
    const auto noughts = [](uint64_t word) { return (word - ones) & ~word & highest; };
    return (noughts(words[0]) | noughts(words[1])) == 0;
  }
};

template <class S, class A> using All = Truth<S, A, false>;
template <class S, class A> using Any = Truth<S, A, true>;

// Where they are: arg.h.
template <class S, class A> struct ArgMax;
template <class S, class A> struct ArgMin;

}  // namespace foldwise::FOLDWISE_ISA
