// Folds that take the same elements in one loop: what is loaded once joins each of them.
#pragma once
#include "columns.h"
#include "joint.h"

namespace foldwise::FOLDWISE_ISA {

template <class S, class... Folds>
struct Joint {
  static constexpr int step = std::max({Terms<Folds>::L...}), least = std::min({Terms<Folds>::L...});
  static constexpr int N = std::max({Terms<Folds>::W...});
  // A slice is N lanes of every `least`: elements that lie in them lie in the same slice of every fold.
  static constexpr int slices = least / N;
  static constexpr std::size_t widest = [] {
    const int widths[] = {Terms<Folds>::W...};
    return std::max_element(widths, std::end(widths)) - widths;
  }();
  template <class F> static constexpr int vectors_of = L_vectors<F> / slices;
  static constexpr int registers = vector_bytes == 64 ? 16 : 8;
  static constexpr int at_once = std::bit_floor(unsigned(std::clamp(registers / (vectors_of<Folds> + ...), 1, slices)));

  // Vectors of columns that are folded side by side: of a line, if registers are enough.
  static constexpr int abreast = vector_bytes == 64 ? std::max<int>(line_bytes / (N * sizeof(S)), 1) : 1;

  // What folds in vectors of N elements share.
  using Shared = typename std::tuple_element_t<widest, std::tuple<Folds...>>::Value;

  // What one fold holds of some slices.
  template <class F>
  struct Held {
    static constexpr int W = Terms<F>::W, L = Terms<F>::L, side_by_side = N / W, each = vectors_of<F>;
    typename Terms<F>::Acc acc[at_once * each];

    // Of a vector, the first lane that it holds.
    static constexpr int lane(int vector) {
      const int slice = vector / each, place = vector % each;
      return slice * N + place / side_by_side * least + place % side_by_side * W;
    }
    FW_INLINE Held(const char* tile, int first, bool resumed) {
      const auto* lanes = reinterpret_cast<const typename Terms<F>::Acc*>(tile) + first * side_by_side;
      if (resumed) repeat<at_once * each>([&](int i) FW_INLINED { acc[i] = lanes[lane(i) / W]; });
      else repeat<at_once * each>([&](int i) FW_INLINED { acc[i] = absence<F, W>(); });
    }
    // N elements of a slice, `row` times `least` further on than the first of it.
    FW_INLINE void take(int slice, int row, const S* p, const Pack<Shared, N>& x) {
      auto* some = acc + slice * each + row * least % L / least * side_by_side;
      if constexpr (std::is_same_v<typename F::Value, Shared>) some[0] = joined<F, W>(some[0], x);
      else repeat<side_by_side>([&](int i) FW_INLINED { some[i] = joined<F, W>(some[i], load<typename F::Value, W>(p + i * W)); });
    }
    FW_INLINE void leave(char* tile, int first) const {
      auto* lanes = reinterpret_cast<typename Terms<F>::Acc*>(tile) + first * side_by_side;
      repeat<at_once * each>([&](int i) FW_INLINED { lanes[lane(i) / W] = acc[i]; });
    }
  };

  template <std::size_t... I>
  static FW_INLINE void fold_slices(const S* p, int64_t steps, int first, char* const* tiles, unsigned resumed, const char* soon,
                                    std::index_sequence<I...>) {
    std::tuple<Held<Folds>...> held(Held<Folds>(tiles[I], first, resumed >> I & 1)...);
    // Of the lines that the steps are on, those who go through them in turn ask for a part each.
    constexpr int bytes = step * static_cast<int>(sizeof(S)) * at_once / slices;
    if (soon) soon += first / at_once * bytes * steps;
    for (int64_t done = 0; done < steps; ++done, p += step) {
      if (soon) {
        repeat<(bytes + 63) / 64>([&](int line) FW_INLINED { fetch_line(soon + line * 64, false, true); });
        soon += bytes;
      }
      repeat<step / least>([&](int row) FW_INLINED {
        repeat<at_once>([&](int slice) FW_INLINED {
          const S* some = p + row * least + (first + slice) * N;
          const auto x = in_register(load<Shared, N>(some));
          (std::get<I>(held).take(slice, row, some, x), ...);
        });
      });
    }
    (std::get<I>(held).leave(tiles[I], first), ...);
  }

  static void fold(const char* p, int64_t count, char* const* tiles, unsigned resumed, const Ahead& ahead) {
    const char* soon = ahead.far ? p + ahead.distance : nullptr;
    for (int first = 0; first < slices; first += at_once) {
      fold_slices(reinterpret_cast<const S*>(p), count / step, first, tiles, resumed, soon, std::index_sequence_for<Folds...>{});
    }
    settle(tiles);
  }

  // What one fold holds of N columns: of one lane, or of two in turn.
  template <class F>
  struct HeldColumns {
    static constexpr int W = Terms<F>::W, side_by_side = N / W, lanes = Terms<F>::L / JointLoop::apart;
    static_assert(lanes == 1 || lanes == 2);
    using Acc = typename Terms<F>::Acc;
    Acc acc[lanes][side_by_side];

    FW_INLINE HeldColumns() {
      each([&](Acc& held, int, int) FW_INLINED { held = absence<F, W>(); });
    }
    FW_INLINE void resume(char* const (&tiles)[2], int64_t column, bool resumed) {
      if (resumed) each([&](Acc& held, int lane, int i) FW_INLINED { held = at(tiles[lane], column)[i]; });
    }
    FW_INLINE void take(int row, const S* p, const Pack<Shared, N>& x) {
      auto& some = acc[row % lanes];
      if constexpr (std::is_same_v<typename F::Value, Shared>) some[0] = joined<F, W>(some[0], x);
      else repeat<side_by_side>([&](int i) FW_INLINED { some[i] = joined<F, W>(some[i], load<typename F::Value, W>(p + i * W)); });
    }
    FW_INLINE void leave(char* const (&tiles)[2], int64_t column) {
      each([&](const Acc& held, int lane, int i) FW_INLINED { at(tiles[lane], column)[i] = held; });
    }

    // Both lanes as one.
    FW_INLINE void join_turns(Acc* to) const {
      repeat<side_by_side>([&](int i) FW_INLINED {
        if constexpr (lanes == 1) to[i] = acc[0][i];
        else to[i] = F::merge(acc[0][i], acc[1][i]);
      });
    }

   private:
    template <class Act>
    FW_INLINE void each(Act&& act) {
      repeat<lanes * side_by_side>([&](int i) FW_INLINED { act(acc[i / side_by_side][i % side_by_side], i / side_by_side, i % side_by_side); });
    }
    static FW_INLINE Acc* at(char* tile, int64_t column) { return reinterpret_cast<Acc*>(tile) + column / W; }
  };

  // From `column` on, as many as come together whole.
  template <int abreast, std::size_t... I>
  static FW_INLINE int64_t fold_rows(const char* p, int64_t stride, int64_t column, int64_t columns, char* const (*tiles)[2], unsigned resumed,
                                     const Onward& onward, std::index_sequence<I...>) {
    for (; column + abreast * N <= columns; column += abreast * N) {
      std::tuple<HeldColumns<Folds>...> held[abreast];
      repeat<abreast>([&](int k) FW_INLINED { ((std::get<I>(held[k]).resume(tiles[I], column + k * N, resumed >> I & 1)), ...); });
      const int64_t ahead = onward(column * int64_t{sizeof(S)});
      const char* row = p + column * int64_t{sizeof(S)};
      for (int pair = 0; pair < JointLoop::rows; pair += 2) {
        repeat<2>([&](int i) FW_INLINED {
          ask_for(row, ahead);
          repeat<abreast>([&](int k) FW_INLINED {
            const auto* some = reinterpret_cast<const S*>(row) + k * N;
            const auto x = in_register(load<Shared, N>(some));
            (std::get<I>(held[k]).take(i, some, x), ...);
          });
          row += stride;
        });
      }
      repeat<abreast>([&](int k) FW_INLINED { (std::get<I>(held[k]).leave(tiles[I], column + k * N), ...); });
    }
    return column;
  }

  static void fold_columns(const char* p, int64_t stride, int64_t columns, char* const (*tiles)[2], unsigned resumed, const Onward& onward) {
    constexpr std::index_sequence_for<Folds...> folds;
    const int64_t done = fold_rows<abreast>(p, stride, 0, columns, tiles, resumed, onward, folds);
    if (abreast > 1) fold_rows<1>(p, stride, done, columns, tiles, resumed, onward, folds);
    settle(tiles);
  }
};

}  // namespace foldwise::FOLDWISE_ISA
