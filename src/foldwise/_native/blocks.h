// Between memory and kernels: any strides, byte order and dtype come in as blocks of a kernel's own dtype, in cache.
#pragma once
#include <algorithm>

#include "load_store.h"

namespace foldwise::FOLDWISE_ISA {

// Calls f with a value of the C++ type that a dtype stands for.
template <class F>
auto with_type(Dtype dtype, F&& f) {
  switch (dtype) {
    case Dtype::boolean: return f(bool{});
    case Dtype::int8: return f(std::int8_t{});
    case Dtype::int16: return f(std::int16_t{});
    case Dtype::int32: return f(std::int32_t{});
    case Dtype::int64: return f(int64_t{});
    case Dtype::uint8: return f(std::uint8_t{});
    case Dtype::uint16: return f(std::uint16_t{});
    case Dtype::uint32: return f(std::uint32_t{});
    case Dtype::uint64: return f(uint64_t{});
    case Dtype::float16: return f(half{});
    case Dtype::bfloat16: return f(bfloat{});
    case Dtype::float32: return f(float{});
    default: return f(double{});
  }
}

// ---- walking

// A place in a nest of axes: pointers that move together, the innermost axis fastest.
struct Cursor {
  const Axis* axes;
  int rank;
  int64_t index[max_rank];
  const char* x;
  const char* mask;
  int64_t out = 0;

  Cursor(const Axis* nest, int nest_rank, const char* x_start, const char* mask_start, int64_t position)
      : axes(nest), rank(nest_rank), x(x_start), mask(mask_start) {
    for (int a = rank - 1; a >= 0; --a) {
      index[a] = 0;
      if (position == 0) continue;  // the common start costs no division
      index[a] = position % axes[a].size;
      position /= axes[a].size;
      move(a, index[a]);
    }
  }

  FW_INLINE void move(int a, int64_t steps) {
    x += steps * axes[a].x;
    mask += steps * axes[a].mask;
    out += steps * axes[a].out;
  }

  // Forward by some steps of the innermost axis, or of one outside it, that do not pass its end, carrying into those further out.
  FW_INLINE void advance(int64_t steps, int outside = 0) {
    int a = rank - 1 - outside;
    if (a < 0) return;
    index[a] += steps;
    move(a, steps);
    while (index[a] == axes[a].size && a > 0) {
      move(a, -index[a]);
      index[a] = 0;
      --a;
      ++index[a];
      move(a, 1);
    }
  }

  FW_INLINE int64_t left_in_line() const { return left(1); }
  FW_INLINE int64_t lines_left() const { return left(2); }
  FW_INLINE int64_t left(int inner) const { return rank >= inner ? axes[rank - inner].size - index[rank - inner] : 1; }
};

// The innermost axis that is kept; of a single output, a point.
inline const Axis& innermost_kept(const ReducePlan& plan) {
  static constexpr Axis point{1, 0, 0, 0};
  return plan.kept_rank ? plan.kept[plan.kept_rank - 1] : point;
}

// From one to the next of the elements that an output folds, along the innermost axis.
inline int64_t innermost_step(const ReducePlan& plan, int64_t item) { return plan.fold_rank ? plan.fold[plan.fold_rank - 1].x : item; }
// Whether what an output folds lies in one piece.
inline bool rows_lie_whole(const ReducePlan& plan, int64_t item) {
  return plan.source.direct && plan.fold_rank <= 1 && innermost_step(plan, item) == item;
}

// ---- in

template <int Bytes> struct WordOf;
template <> struct WordOf<1> { using type = std::uint8_t; };
template <> struct WordOf<2> { using type = std::uint16_t; };
template <> struct WordOf<4> { using type = std::uint32_t; };
template <> struct WordOf<8> { using type = uint64_t; };

template <class S, bool swapped>
FW_INLINE S read(const char* p) {
  typename WordOf<sizeof(S)>::type word;
  std::memcpy(&word, p, sizeof word);
  if constexpr (std::is_same_v<S, bool>) return word != 0;
  if constexpr (swapped && sizeof(S) == 2) word = __builtin_bswap16(word);
  if constexpr (swapped && sizeof(S) == 4) word = __builtin_bswap32(word);
  if constexpr (swapped && sizeof(S) == 8) word = __builtin_bswap64(word);
  return std::bit_cast<S>(word);
}

// An element that may lie at any address.
template <class S>
FW_INLINE S element_at(const S* p) {
  return read<S, false>(reinterpret_cast<const char*>(p));
}

template <class T, class S>
FW_INLINE T converted(S value) {
  if constexpr (std::is_same_v<T, S>) return value;
  else if constexpr (std::is_same_v<S, bfloat>) return T(std::bit_cast<float>(std::uint32_t(value.bits) << 16));
  else if constexpr (std::is_same_v<S, half>) {
#if defined(__F16C__)
    return T(_cvtsh_ss(value.bits));
#else
    const half four[4] = {value};
    return T(load_as<float, 4>(four)[0]);
#endif
  } else return static_cast<T>(value);
}

// A short stretch, in vectors that mostly do not lie across two lines of cache, the last of which reaches back: memcpy takes as long
// for the call as for some hundred bytes.
FW_INLINE void copy_stretch(char* to, const char* from, int64_t bytes) {
  constexpr int vector = std::min(vector_bytes, 32), most = 2048;
  if (bytes < vector || bytes > most) {
    std::memcpy(to, from, bytes);
    return;
  }
  const auto copy = [&](int64_t at) FW_INLINED { store_vector(to + at, load_vector<char, vector>(from + at)); };
  for (int64_t at = 0; at + vector <= bytes; at += vector) copy(at);
  copy(bytes - vector);
}

// to[i] = last[-i].
template <class T>
void copy_backwards(T* to, const T* last, int64_t count) {
  using Word = typename WordOf<sizeof(T)>::type;
  constexpr int N = native<Word>;
  int64_t i = 0;
  for (; i + N <= count; i += N) {
    const auto ahead = load_vector<Word, N>(last - i - N + 1);
    store_vector(to + i, pick<N>(ahead, ahead, [](int k) { return N - 1 - k; }));
  }
  for (; i < count; ++i) std::memcpy(to + i, last - i, sizeof(T));
}

// to[i] = from[2 * i], of as many as fill a vector or more; returns how many.
template <class Word>
FW_OUTLINE int64_t copy_every_second_word(Word* to, const char* from, int64_t count) {
  constexpr int N = native<Word>;
  constexpr int64_t size = sizeof(Word);
  if (count < N) return 0;
  for (int64_t i = 0; i + N < count; i += N) {
    const char* p = from + 2 * i * size;
    store_vector(to + i, pick<N>(load_vector<Word, N>(p), load_vector<Word, N>(p + N * size), [](int k) { return 2 * k; }));
  }
  // What is left over comes with what was before it, from two vectors of which the second ends with the last element.
  const char* const p = from + 2 * (count - N) * size;
  store_vector(to + count - N, pick<N>(load_vector<Word, N>(p), load_vector<Word, N>(p + (N - 1) * size), [](int k) { return 2 * k < N ? 2 * k : 2 * k + 1; }));
  return count;
}
template <class T>
int64_t copy_every_second(T* to, const char* from, int64_t count) {
  return copy_every_second_word(reinterpret_cast<typename WordOf<sizeof(T)>::type*>(to), from, count);
}

// The same, converted.
template <class T, class S, bool swapped>
FW_OUTLINE int64_t gather_every_second(T* to, const char* from, int64_t count);

template <class T, class S, bool swapped>
FW_INLINE void gather_line(T* to, const char* from, int64_t stride, int64_t count) {
  constexpr int64_t size = sizeof(S);
  constexpr bool same = std::is_same_v<T, S> && !swapped;
  if (stride == size) {
    if constexpr (same) return copy_stretch(reinterpret_cast<char*>(to), from, count * size);
    int64_t i = 0;
    if constexpr (std::is_floating_point_v<T> && !swapped && (std::is_same_v<S, half> || std::is_same_v<S, bfloat>)) {
      constexpr int N = native<T>;
      for (; i + N <= count; i += N) store(to + i, load<T, N>(reinterpret_cast<const S*>(from) + i));
    }
    for (; i < count; ++i) to[i] = converted<T>(read<S, swapped>(from + i * size));
  } else if (stride == -size) {
    if constexpr (same) return copy_backwards(to, reinterpret_cast<const S*>(from), count);
    for (int64_t i = 0; i < count; ++i) to[i] = converted<T>(read<S, swapped>(from - i * size));
  } else if (stride == 0) {
    std::fill_n(to, count, converted<T>(read<S, swapped>(from)));
  } else {
    int64_t i = 0;
    if (stride == 2 * size) {
      if constexpr (same) i = copy_every_second(to, from, count);
      else i = gather_every_second<T, S, swapped>(to, from, count);
    }
#pragma GCC unroll 4
    for (; i < count; ++i) to[i] = converted<T>(read<S, swapped>(from + i * stride));
  }
}

template <class T, class S, bool swapped>
int64_t gather_every_second(T* to, const char* from, int64_t count) {
  constexpr int64_t most = 512, size = sizeof(S);
  S some[most];
  int64_t i = 0;
  while (const int64_t next = copy_every_second(some, from + 2 * i * size, std::min(most, count - i))) {
    gather_line<T, S, swapped>(to + i, reinterpret_cast<const char*>(some), size, next);
    i += next;
  }
  return i;
}

// A value in so many places, and perhaps in some behind them.
template <class T>
FW_INLINE void repeat_value(T* to, T value, int64_t count) {
  using Word = typename WordOf<sizeof(T)>::type;
  constexpr int N = native<Word>;
  const auto repeated = std::bit_cast<Word>(value) - typename VectorOf<Word, N>::type{};
  for (int64_t i = 0; i < count; i += N) store_vector(to + i, repeated);
}

// Lines of so many elements, `apart` from each other, each into a row that has `room` for it.
template <class T, class S, bool swapped>
void gather(T* to, int64_t room, const char* from, int64_t stride, int64_t count, int64_t apart, int64_t lines) {
  constexpr int64_t few = 16;
  if (stride == 0) {  // what goes beyond a row is written over by the next ones
    for (const T* const end = to + (lines - 1) * room + count; to + count + vector_bytes / int64_t{sizeof(T)} <= end; --lines, from += apart, to += room) {
      repeat_value(to, converted<T>(read<S, swapped>(from)), count);
    }
  }
  for (; lines > 0; --lines, from += apart, to += room) {
    if (count >= few) {
      gather_line<T, S, swapped>(to, from, stride, count);
    } else {
      for (int64_t i = 0; i < count; ++i) {
        to[i] = converted<T>(read<S, swapped>(from + i * stride));
        asm volatile("");  // no vectors, whose preparations take longer
      }
    }
  }
}

template <class T>
using Gather = void (*)(T* to, int64_t room, const char* from, int64_t stride, int64_t count, int64_t apart, int64_t lines);

// Kernels fold their own dtype, double folds every dtype, float the shorter ones of floats, 64-bit integers every integer, bytes what
// is as small.
template <class T, class S>
constexpr bool gathers = std::is_same_v<T, S> || std::is_same_v<T, double> ||
                         (std::is_same_v<T, float> && (std::is_same_v<S, half> || std::is_same_v<S, bfloat>)) ||
                         (std::is_integral_v<T> && (sizeof(T) == 8 || (sizeof(T) == 1 && sizeof(S) == 1)) && std::is_integral_v<S>);

template <class T>
Gather<T> gather_for(const Source& source) {
  return with_type(source.dtype, [&](auto sample) -> Gather<T> {
    using S = decltype(sample);
    if constexpr (!gathers<T, S>) return nullptr;
    else if constexpr (sizeof(S) == 1) return gather<T, S, false>;
    else return source.swapped ? gather<T, S, true> : gather<T, S, false>;
  });
}

// Instantiated once per ISA, in blocks.cpp, not in every fold's object.
#define FOLDWISE_EACH_SHORT(X) X(std::int8_t) X(std::int16_t) X(std::uint8_t) X(std::uint16_t)
#define FOLDWISE_EACH_SCANNED(X) X(half) X(bfloat) X(float) X(double) X(std::int32_t) X(int64_t) X(uint64_t)
#define FOLDWISE_EACH_COLUMN(X) FOLDWISE_EACH_SCANNED(X) FOLDWISE_EACH_SHORT(X)
#define FOLDWISE_EACH_VALUE(X) X(float) X(double) X(std::int32_t) X(std::uint32_t) X(int64_t) X(uint64_t) FOLDWISE_EACH_SHORT(X)
#define FOLDWISE_ELSEWHERE(T) extern template Gather<T> gather_for<T>(const Source&);
FOLDWISE_EACH_COLUMN(FOLDWISE_ELSEWHERE)
#undef FOLDWISE_ELSEWHERE

// Places that the mask leaves out become `absent`, whatever they hold: masks are hard to foretell.
template <class T>
void leave_out(T* to, T absent, const char* mask, int64_t stride, int64_t count) {
  if (stride == 0) {
    if (count && !*mask) std::fill_n(to, count, absent);
    return;
  }
  using Word = typename WordOf<sizeof(T)>::type;
  const Word nothing = std::bit_cast<Word>(absent);
  int64_t i = 0;
  if (stride == 1) {
    constexpr int N = native<Word>;
    using Words = typename VectorOf<Word, N>::type;
    for (; i + N <= count; i += N) {
      const auto chosen = __builtin_convertvector(load_vector<signed char, N>(mask + i) != 0, decltype(Words{} == Words{}));
      store_vector(to + i, chosen ? load_vector<Word, N>(to + i) : nothing - Words{});
    }
  }
  for (; i < count; ++i) {
    const Word kept = mask[i * stride] ? ~Word{0} : Word{0};
    const Word word = std::bit_cast<Word>(to[i]);
    to[i] = std::bit_cast<T>(static_cast<Word>((word & kept) | (nothing & ~kept)));
  }
}

// Reads lines of a source into a block; places that the mask leaves out become `absent`.
template <class T>
struct Reader {
  Gather<T> gather;
  bool masked;
  T absent;

  Reader(const Source& source, T absent_value)
      : gather(gather_for<T>(source)), masked(source.mask != nullptr), absent(absent_value) {}

  FW_OUTLINE void operator()(T* to, const char* x, const char* mask, const Axis& along, int64_t count) const {
    gather(to, 0, x, along.x, count, 0, 1);
    if (masked) leave_out(to, absent, mask, along.mask, count);
  }

  // Some lines, each into a row that has `room` for it. What is left of that becomes `absent`, too.
  FW_OUTLINE void lines(T* to, int64_t room, const char* x, const char* mask, const Axis& along, const Axis& across, int64_t count,
                        int64_t lines) const {
    gather(to, room, x, along.x, count, across.x, lines);
    for (int64_t i = 0; masked && i < lines; ++i) leave_out(to + i * room, absent, mask + i * across.mask, along.mask, count);
    if (room == count) return;
    for (int64_t i = 0; i < lines; ++i) std::fill(to + i * room + count, to + (i + 1) * room, absent);
  }

  // The next `count` elements of a nest, line by line.
  void sequence(T* to, Cursor& from, int64_t count) const {
    static constexpr Axis point{1, sizeof(T), 0, 0};
    const Axis& line = from.rank ? from.axes[from.rank - 1] : point;
    while (count) {
      int64_t some = std::min(count, from.left_in_line());
      if (from.rank < 2 || some < line.size) {
        (*this)(to, from.x, from.mask, line, some);
        from.advance(some);
      } else {
        const int64_t whole = std::min(count / some, from.lines_left());
        lines(to, some, from.x, from.mask, line, from.axes[from.rank - 2], some, whole);
        from.advance(whole, 1);
        some *= whole;
      }
      to += some;
      count -= some;
    }
  }
};

#define FOLDWISE_ELSEWHERE(T) extern template struct Reader<T>;
FOLDWISE_EACH_COLUMN(FOLDWISE_ELSEWHERE)
#undef FOLDWISE_ELSEWHERE

// The value of the accumulator type that changes nothing, in a source's own dtype.
template <class T, class A>
T absent_source(A absent) {
  if constexpr (std::is_same_v<T, half>) return to_half(static_cast<float>(absent));
  else if constexpr (std::is_same_v<T, bfloat>) return to_bfloat(static_cast<float>(absent));
  else return static_cast<T>(absent);
}

}  // namespace foldwise::FOLDWISE_ISA
