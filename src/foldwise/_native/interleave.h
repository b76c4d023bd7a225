// A few sequences that lie interleaved, taken apart into rows and put together again; rows that become columns.
#pragma once
#include "blocks.h"

namespace foldwise::FOLDWISE_ISA {

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
