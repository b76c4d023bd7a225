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
    const half four[4] = {value};
    return T(load_as<float, 4>(four)[0]);
  } else return static_cast<T>(value);
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

// to[i] = from[2 * i], for as many as whole vectors cover without reading past the last; returns how many.
template <class T>
int64_t copy_every_second(T* to, const char* from, int64_t count) {
  using Word = typename WordOf<sizeof(T)>::type;
  constexpr int N = native<Word>;
  int64_t i = 0;
  for (; i + N < count; i += N) {
    const char* p = from + 2 * i * sizeof(Word);
    store_vector(to + i, pick<N>(load_vector<Word, N>(p), load_vector<Word, N>(p + N * sizeof(Word)), [](int k) { return 2 * k; }));
  }
  return i;
}

template <class T, class S, bool swapped>
void gather(T* to, const char* from, int64_t stride, int64_t count) {
  constexpr int64_t size = sizeof(S);
  if (stride == size) {
    int64_t i = 0;
    if constexpr (std::is_floating_point_v<T> && !swapped && (std::is_same_v<S, half> || std::is_same_v<S, bfloat>)) {
      constexpr int N = native<T>;
      for (; i + N <= count; i += N) store(to + i, load<T, N>(reinterpret_cast<const S*>(from) + i));
    }
    for (; i < count; ++i) to[i] = converted<T>(read<S, swapped>(from + i * size));
  } else if (stride == -size) {
    if constexpr (std::is_same_v<T, S> && !swapped) return copy_backwards(to, reinterpret_cast<const S*>(from), count);
    for (int64_t i = 0; i < count; ++i) to[i] = converted<T>(read<S, swapped>(from - i * size));
  } else if (stride == 0) {
    std::fill_n(to, count, converted<T>(read<S, swapped>(from)));
  } else {
    int64_t i = 0;
    if constexpr (std::is_same_v<T, S> && !swapped) {
      if (stride == 2 * size) i = copy_every_second(to, from, count);
    }
    for (; i < count; ++i) to[i] = converted<T>(read<S, swapped>(from + i * stride));
  }
}

template <class T>
using Gather = void (*)(T* to, const char* from, int64_t stride, int64_t count);

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
  int64_t i = 0;
  if (stride == 1) {
    using Word = typename WordOf<sizeof(T)>::type;
    constexpr int N = native<Word>;
    using Words = typename VectorOf<Word, N>::type;
    const Words nothing = std::bit_cast<Word>(absent) - Words{};
    for (; i + N <= count; i += N) {
      const auto chosen = __builtin_convertvector(load_vector<signed char, N>(mask + i) != 0, decltype(Words{} == Words{}));
      store_vector(to + i, chosen ? load_vector<Word, N>(to + i) : nothing);
    }
  }
  for (; i < count; ++i) {
    const T either[2] = {absent, to[i]};
    to[i] = either[mask[i * stride] != 0];
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
    gather(to, x, along.x, count);
    if (masked) leave_out(to, absent, mask, along.mask, count);
  }

  // The next `count` elements of a nest, line by line.
  void sequence(T* to, Cursor& from, int64_t count) const {
    static constexpr Axis point{1, sizeof(T), 0, 0};
    const Axis& line = from.rank ? from.axes[from.rank - 1] : point;
    while (count) {
      const int64_t some = std::min(count, from.left_in_line());
      (*this)(to, from.x, from.mask, line, some);
      from.advance(some);
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

// ---- a few sequences, interleaved

// Element g of K * N interleaved words belongs to row g % K, at place g / K. One vector after the other is picked into
// what is there already: step `more` takes from it what belongs, and keeps the rest.
template <int K, int N, int row, int more>
struct Apart {
  constexpr int operator()(int place) const {
    const int g = place * K + row, at = g - more * N;
    if (more == 1) return g < 2 * N ? g : 0;
    return at >= 0 && at < N ? N + at : place;
  }
};
template <int K, int N, int vector, int more>
struct Together {
  constexpr int operator()(int element) const {
    const int g = vector * N + element;
    if (more == 1) return g % K == 0 ? g / K : N + g / K % N;
    return g % K == more ? N + g / K : element;
  }
};

// Where two vectors are merged lane by lane in less time than by a shuffle of both: the elements of one of three rows lie in
// lanes that differ, whatever their vectors.
template <int K> constexpr bool by_lanes = K == 3 && vector_bytes == 32;
template <int K, int N, int row>
struct LaneOfPlace {
  constexpr int operator()(int place) const { return (place * K + row) % N; }
};
template <int K, int N, int row>
struct PlaceOfLane {
  constexpr int operator()(int lane) const {
    int place = 0;
    while ((place * K + row) % N != lane) ++place;
    return place;
  }
};
template <int K, int N, int vector, int row>
struct Belongs {
  constexpr int operator()(int lane) const { return (vector * N + lane) % K == row ? N + lane : lane; }
};

template <template <int, int, int, int> class Index, int K, int N, int result, class V>
FW_INLINE V picked_from(const V* in) {
  V out = pick<N>(in[0], in[1], Index<K, N, result, 1>{});
  if constexpr (K > 2) out = pick<N>(out, in[2], Index<K, N, result, 2>{});
  if constexpr (K > 3) out = pick<N>(out, in[3], Index<K, N, result, 3>{});
  return out;
}

// Of K vectors, one after the other in memory, those elements that belong to one row.
template <int K, int N, int row, class V>
FW_INLINE V taken_apart(const V* in) {
  if constexpr (by_lanes<K>) {
    const V merged = pick<N>(pick<N>(in[0], in[1], Belongs<K, N, 1, row>{}), in[2], Belongs<K, N, 2, row>{});
    return pick<N>(merged, merged, LaneOfPlace<K, N, row>{});
  } else {
    return picked_from<Apart, K, N, row>(in);
  }
}

// And back: a vector of each row becomes K vectors, given one by one to take(vector, elements).
template <int K, int N, class V, class Take>
FW_INLINE void put_together(const V* in, Take&& take) {
  [&]<int... C>(std::integer_sequence<int, C...>) FW_INLINED {
    if constexpr (by_lanes<K>) {
      const V rows[K] = {pick<N>(in[C], in[C], PlaceOfLane<K, N, C>{})...};
      (take(C, pick<N>(pick<N>(rows[0], rows[1], Belongs<K, N, C, 1>{}), rows[2], Belongs<K, N, C, 2>{})), ...);
    } else {
      (take(C, picked_from<Together, K, N, C>(in)), ...);
    }
  }(std::make_integer_sequence<int, K>{});
}

// `count` times K words become K rows of `count` words, `row` words apart.
template <int K, class Word>
void deinterleave(Word* to, int64_t row, const Word* from, int64_t count) {
  constexpr int N = native<Word>;
  int64_t i = 0;
  for (; i + N <= count; i += N) {
    typename VectorOf<Word, N>::type in[K];
    repeat<K>([&](int c) FW_INLINED { in[c] = load_vector<Word, N>(from + i * K + c * N); });
    [&]<int... R>(std::integer_sequence<int, R...>) FW_INLINED {
      (store_vector(to + R * row + i, taken_apart<K, N, R>(in)), ...);
    }(std::make_integer_sequence<int, K>{});
  }
  for (; i < count; ++i) {
    for (int r = 0; r < K; ++r) std::memcpy(to + r * row + i, from + i * K + r, sizeof(Word));
  }
}

// And back.
template <int K, class Word>
void interleave(Word* to, const Word* from, int64_t row, int64_t count) {
  constexpr int N = native<Word>;
  int64_t i = 0;
  for (; i + N <= count; i += N) {
    typename VectorOf<Word, N>::type in[K];
    repeat<K>([&](int r) FW_INLINED { in[r] = load_vector<Word, N>(from + r * row + i); });
    put_together<K, N>(in, [&](int c, auto elements) FW_INLINED { store_vector(to + i * K + c * N, elements); });
  }
  for (; i < count; ++i) {
    for (int r = 0; r < K; ++r) std::memcpy(to + i * K + r, from + r * row + i, sizeof(Word));
  }
}

constexpr int64_t most_interleaved_words = 4;

// The same for a K known at run time, of 2..most_interleaved_words; elements travel as words.
template <class Word>
void deinterleave_words(Word* to, int64_t row, const Word* from, int64_t k, int64_t count) {
  if (k == 2) deinterleave<2>(to, row, from, count);
  else if (k == 3) deinterleave<3>(to, row, from, count);
  else deinterleave<4>(to, row, from, count);
}
template <class Word>
void interleave_words(Word* to, const Word* from, int64_t row, int64_t k, int64_t count) {
  if (k == 2) interleave<2>(to, from, row, count);
  else if (k == 3) interleave<3>(to, from, row, count);
  else interleave<4>(to, from, row, count);
}

// Rows of some words, whole vectors of them, become columns that lie `room` words apart. The last row stands for those that are not
// there.
template <class Word>
void transpose_words(Word* to, int64_t room, const char* x, int64_t stride, int64_t rows, int64_t count) {
  constexpr int N = native<Word>, size = sizeof(Word);
  const char* const last = x + (rows - 1) * stride + (count - N) * size;  // up to here a vector ends where a row does, or before
  for (int64_t r = 0; r < rows; r += N) {
    const char* row = x + r * stride;
    const bool whole = rows - r >= N && (count >= N || std::max(row, row + (N - 1) * stride) <= last);
    for (int64_t next = 0; next < count; next += N) {
      const int64_t first = std::min<int64_t>(next, std::max<int64_t>(count - N, 0));  // what is left over comes with what was before
      const int present = static_cast<int>(std::min<int64_t>(count, N));
      const auto at = [&](int64_t i) FW_INLINED { return reinterpret_cast<const Word*>(row + i * stride + first * size); };
      typename VectorOf<Word, N>::type square[N];
      if (whole) repeat<N>([&](int i) FW_INLINED { square[i] = load_vector<Word, N>(at(i)); });
      else for (int i = 0; i < N; ++i) square[i] = load_some<Word, N>(at(std::min<int64_t>(i, rows - r - 1)), present, Word{}).v[0];
      transpose<N>(square);
      Word* column = to + first * room + r;
      if (count >= N) repeat<N>([&](int c) FW_INLINED { store_vector(column + c * room, square[c]); });
      else for (int64_t c = 0; c < count; ++c) store_vector(column + c * room, square[c]);
    }
  }
}

#define FOLDWISE_EACH_LONG_WORD(X) X(std::uint16_t) X(std::uint32_t) X(uint64_t)
#define FOLDWISE_EACH_WORD(X) X(std::uint8_t) FOLDWISE_EACH_LONG_WORD(X)
#define FOLDWISE_ELSEWHERE(Word)                                                                          \
  extern template void deinterleave_words<Word>(Word*, int64_t, const Word*, int64_t, int64_t);           \
  extern template void interleave_words<Word>(Word*, const Word*, int64_t, int64_t, int64_t);
FOLDWISE_EACH_WORD(FOLDWISE_ELSEWHERE)
#undef FOLDWISE_ELSEWHERE
#define FOLDWISE_ELSEWHERE(Word) extern template void transpose_words<Word>(Word*, int64_t, const char*, int64_t, int64_t, int64_t);
FOLDWISE_EACH_LONG_WORD(FOLDWISE_ELSEWHERE)
#undef FOLDWISE_ELSEWHERE

template <class T>
void deinterleave(T* to, int64_t row, const void* from, int64_t k, int64_t count) {
  using Word = typename WordOf<sizeof(T)>::type;
  deinterleave_words(reinterpret_cast<Word*>(to), row, static_cast<const Word*>(from), k, count);
}
template <class T>
void interleave(void* to, const T* from, int64_t row, int64_t k, int64_t count) {
  using Word = typename WordOf<sizeof(T)>::type;
  interleave_words(static_cast<Word*>(to), reinterpret_cast<const Word*>(from), row, k, count);
}

template <class T>
void transpose_rows(T* to, int64_t room, const char* x, int64_t stride, int64_t rows, int64_t count) {
  transpose_words(reinterpret_cast<typename WordOf<sizeof(T)>::type*>(to), room, x, stride, rows, count);
}

}  // namespace foldwise::FOLDWISE_ISA
