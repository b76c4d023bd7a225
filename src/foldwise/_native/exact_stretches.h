// Stretches of one sequence, added to a Total by the fastest way that is exact for them.
#pragma once
#include "exact_anchors.h"
#include "tree.h"

namespace foldwise::FOLDWISE_ISA {

// Elements that lie one after the other are added in one of four ways:
//   plainly            parts of doubles, under one check of the flags; float16 by weights, or in words of 32 bits, or on levels, which hold all
//                      of them; bfloat16 in floats, float32 in cache on an anchor; no squares for which a grid takes as little
//   counted            in one unit, by integers or by two doubles each, few in a double, or on one anchor, when they are some forty binades apart
//   on a grid          all of them cut at the same places: other numbers as far apart, or farther
//   by bits            one after the other, by their signs and exponents
template <class F>
class Stretches {
  using T = Terms<F>;
  using S = typename T::S;
  using Acc = typename T::Acc;
  static constexpr int W = T::W;
  static constexpr int vectors = L_vectors<F>;
  typedef typename VectorOf<double, W>::type Vector;
  typedef typename VectorOf<int64_t, W>::type Bits;
  static constexpr int64_t few = 512;

  // What is not plain seldom stands alone. Until something was, a first try is short, and a grid takes more at once; after bits,
  // so many spans more go by bits.
  Patience pairs_{3}, floats_{3}, plain_{3}, few_, whole_, counted_;
  bool plainly_ = false, stopped_ = false;  // stopped_: what comes next has failed its check
  int64_t by_bits_ = 0;
  static constexpr Exponents unseen{above_all, of_nothing};
  Exponents seen_ = unseen;   // of elements that were not plain
  int exponent_ = above_all;  // of the last grid, if there was one

 public:
  static constexpr int64_t on_grid = most_counted, a_try = 1024;
  static constexpr int64_t span = starts_in_floats<F> ? floats_per_check : counts_halves<F> ? on_grid : 8192;
  static constexpr int64_t block = std::min<int64_t>(span, 8192);

  void add(Total& total, const S* p, int64_t count, const S* next = nullptr) {
    Tally<F> sum(total);
    add(sum, p, count, next);
    sum.whole();
  }

  FW_OUTLINE void add(Tally<F>& sum, const S* p, int64_t count, const S* next) {
    while (count) {
      int64_t some = up_to_a_line(p, plainly_ ? span : on_grid, count);
      const bool elsewhere = next && next != p + count, apart = elsewhere && some == count;
      const Ahead ahead{apart ? (next - p) * int64_t{sizeof(S)} : sequence_prefetch_distance(), apart, 0, next != nullptr};
      if (by_bits_ > 0) {
        some = std::min(count, by_bits_ * on_grid);
        by_bits_ -= (some + on_grid - 1) / on_grid;
        add_by_bits(sum.total(), p, some);
      } else if (const int64_t plain = add_plainly(sum, p, !plainly_ ? up_to_a_line(p, a_try, some) : elsewhere ? some : reach(some, count, ahead), ahead)) {
        some = plain;
      } else if (!add_apart(sum, p, some, ahead)) {
        add_by_bits(sum.total(), p, some);
        by_bits_ = 7;
        seen_ = unseen;
      }
      p += some;
      count -= some;
    }
  }

 private:
  // So many and a few more, that what follows begins on a line of cache, or all there are: vectors on two lines take twice as long.
  static int64_t up_to_a_line(const S* p, int64_t some, int64_t count) {
    return std::min<int64_t>(some + -reinterpret_cast<std::uintptr_t>(p + some) % line_bytes / sizeof(S), count);
  }
  static bool goes_in_floats(int64_t count, const Ahead& ahead) {
    if constexpr (starts_on_anchors<F>) return !zen4 && !ahead.far && count >= FloatsOnAnchors<F>::fewest;
    else return starts_in_floats<F>;
  }
  // As far as plain arithmetic may go on: of floats span after span.
  static int64_t reach(int64_t some, int64_t count, const Ahead& ahead) { return goes_in_floats(count, ahead) ? count : some; }

  // How many it has added: of float16 in pairs, and of what is added in floats, perhaps only the first.
  int64_t add_plainly(Tally<F>& sum, const S* p, int64_t count, const Ahead& ahead) {
    if constexpr (!F::plainly) {
      return 0;
    } else if constexpr (counts_halves<F>) {
      if constexpr (may_weigh<F>) {
        if (adds_products) return (plainly_ = WeighedHalves<S>::add(sum, p, count)) ? count : 0;
      }
      bool too_large = false;
      if constexpr (starts_in_pairs<F>) {
        if (pairs_.lasts()) {
          count = std::min(count, pairs_per_check);
          plainly_ = pairs_.learn(WholeNumbers<F>::template add_halves<2>(sum, p, count, ahead));
          if (plainly_) return count;
          too_large = raised_flags(flag_of_invalid);
        }
      }
      plainly_ = (floats_.lasts() && floats_.learn(!too_large && WholeNumbers<F>::template add_halves<1>(sum, p, count, ahead))) ||
                 HalvesOnLevels::add(sum, p, count, ahead.distance);
    } else {
      constexpr bool whole_numbers_take_less = starts_in_floats<F> && WholeNumbers<F>::suits;
      plainly_ = false;
      if constexpr (starts_in_floats<F> || starts_on_anchors<F>) {
        if (goes_in_floats(count, ahead) && !std::exchange(stopped_, false) && floats_.lasts()) {
          const int64_t done = add_in_floats(sum, p, count, ahead);
          plainly_ = done > 0;
          if (starts_in_floats<F> && plainly_) floats_.learn(true);  // however soon it stopped; what an anchor does not suit, it seldom does later
          stopped_ = !floats_.learn(done == count) && plainly_;
          if (plainly_) return done;
        }
        count = std::min(count, span);
      }
      if constexpr (!whole_numbers_take_less) plainly_ = plain_.lasts() && plain_.learn(add_in_lanes(sum, p, count, ahead));
    }
    return plainly_ ? count : 0;
  }

  // Span after span under a check each, as long as they pass.
  static int64_t add_in_floats(Tally<F>& sum, const S* p, int64_t count, const Ahead& ahead) {
    if constexpr (starts_on_anchors<F>) {
      const FloatsOnAnchors<F> on_anchors(p, count);
      return on_anchors.suits() ? add_spans<4096>(sum, p, count, FloatsOnAnchors<F>::at_once, on_anchors) : 0;
    } else {
      return add_spans<span>(sum, p, count, span, [&](const S* some, int64_t so_many) FW_INLINED { return sums_by_floats(some, so_many, ahead); });
    }
  }
  template <int64_t most, class Sums>
  static FW_INLINE int64_t add_spans(Tally<F>& sum, const S* p, int64_t count, int64_t first, const Sums& sums) {
    Pack<double, W> all = splat<double, W>(0.0);
    int64_t done = 0;
    clear_flags();
    for (int64_t some; done < count; done += some) {
      some = up_to_a_line(p + done, done ? most : first, count - done);
      const auto more = all + sums(p + done, some);
      settle(&more);
      if (lost_bits()) break;
      all = more;
    }
    if (done) add_lanes(sum, {{all}});
    return done;
  }

  FW_INLINE bool add_in_lanes(Tally<F>& sum, const S* p, int64_t count, Ahead ahead) {
    clear_flags();
    if constexpr (may_widen_by_fours<F>) {
      if (zen4) {
        const Acc all[] = {{sums_by_fours(p, count, ahead)}};
        settle(all);
        return !lost_bits() && (add_lanes(sum, all), true);
      }
    }
    Acc lanes[vectors];
    if (ahead.far) fold_into_lanes<F, T::L, true>(p, count, T::L, lanes, false, ahead);
    else fold_into_lanes<F, T::L, false>(p, count, T::L, lanes);
    settle(lanes);
    return !lost_bits() && (add_lanes(sum, lanes), true);
  }

  // Lanes that are exact, whose sum may be.
  template <int vectors>
  static FW_INLINE void add_lanes(Tally<F>& sum, const Acc (&lanes)[vectors]) {
    Acc folding[vectors];
    std::copy_n(lanes, vectors, folding);
    clear_flags();
    const typename F::template Acc<1> whole = folded<F, W>(fold_lane_vectors<F, vectors>(folding));
    settle(&whole);
    if (!lost_bits()) sum.add(whole);
    else add_lanes_halved(sum, lanes);
  }
  template <int vectors>
  static FW_OUTLINE void add_lanes_halved(Tally<F>& sum, const Acc (&lanes)[vectors]) {
    constexpr int row = vectors * W;
    double numbers[F::parts * row];
    for (int v = 0; v < vectors; ++v) store_parts(numbers + v * W, row, lanes[v]);
    const double* part = numbers;
    for (int m = 0; m < F::parts; ++m, part += row) add_halved(sum, part, row);
  }

  static Exponents exponents(const S* p, int64_t count) { return exponents_summed<F>(p, count); }

  // If nothing is known yet, a look at few elements mostly says enough of all.
  Exponents seen(const S* p, int64_t count) {
    if (seen_.above == unseen.above) seen_ = exponents(p, std::min(few, count));
    return seen_;
  }

  bool add_apart(Tally<F>& sum, const S* p, int64_t count, const Ahead& ahead) {
    if constexpr (counts_halves<F>) return false;  // levels hold all of them that are numbers
    else return (zen4 && count >= least_made && add_counted_by<FewInDoubles<F>>(sum, p, count, ahead, few_)) ||
                add_counted_by<WholeNumbers<F>>(sum, p, count, ahead, whole_) ||
                add_counted_by<DoublesOnAnchors<F>>(sum, p, count, ahead, counted_) ||
                add_counted_by<UnitsAndRests<F>>(sum, p, count, ahead, counted_) || add_on_grid(sum.total(), p, count);
  }
  template <class Counted>
  bool add_counted_by(Tally<F>& sum, const S* p, int64_t count, const Ahead& ahead, Patience& patience) {
    if constexpr (Counted::suits) {
      const Exponents here = seen(p, count);
      if (here.above - here.below > Counted::binades || !patience.lasts()) return false;
      if (patience.learn(Counted::add(sum, p, count, here, ahead))) return true;
      seen_ = exponents(p, count);
    }
    return false;
  }

  bool add_on_grid(Total& total, const S* p, int64_t count) {
    constexpr int bits_to_spare = 8, reach = F::levels * std::numeric_limits<double>::digits;
    if (const Exponents here = seen(p, count); here.above - here.below > reach) return false;
    // The last level is plain where the flags tell whether it was exact; elsewhere it must leave nothing.
    constexpr bool plainly = adds_unnoted, in_two = !F::linear && std::is_same_v<S, double>;
    const auto on_this = [&] {
      Grid<F::levels - plainly> grid(exponent_, in_two ? 2 * on_grid : on_grid);
      Vector rests[4] = {};
      Bits lost[4] = {};
      clear_flags();
      grid.take(count, vectors_of<F>(p, count), [&](int v, int64_t, Vector rest) FW_INLINED {
        if (plainly) rests[v] = added_aside(rest, rests[v]);
        else lost[v] |= std::bit_cast<Bits>(rest);
      });
      if (lanes_where(((lost[0] | lost[1] | lost[2] | lost[3]) << 1) != 0)) return false;  // zeros have signs
      const Vector ends[] = {rests[0], rests[1], rests[2], rests[3]};
      settle(&grid);
      settle(ends);
      if (plainly ? lost_bits() : !F::linear && raised_flags(flag_of_range)) return false;
      if (any_moved(grid.moved())) return false;
      add_all(total, grid, ends);
      return true;
    };
    // A grid has some bits to spare.
    if (exponent_ == above_all && count > few) exponent_ = seen_.above + bits_to_spare;
    if (exponent_ < above_all && on_this()) return true;
    const int before = std::exchange(exponent_, exponents(p, count).above);
    return before != exponent_ && exponent_ < above_all && on_this();
  }

  // What anchors and rests hold: one number each, if that is exact.
  template <int levels>
  static FW_INLINE void add_all(Total& total, const Grid<levels>& grid, const Vector (&rests)[4]) {
    double sums[levels + 1];
    clear_flags();
    for (int k = 0; k < levels; ++k) sums[k] = grid.sum(k);
    sums[levels] = summed(rests);
    settle(sums);
    if (!lost_bits()) {
      for (const double sum : sums) total.add(sum);
    } else {
      grid.add_to(total);
      total.add_all(reinterpret_cast<const double*>(rests), 4 * W);
    }
  }

  // Elements as they are summed, be it in a wider type, are handed on some at a time.
  template <class Wide>
  static void add_bits_of(Total& total, const S* p, int64_t count) {
    constexpr int64_t most = 65536 / sizeof(Wide);
    Wide some[most + W];
    for (int64_t here; count; p += here, count -= here) {
      here = std::min(count, most);
      for (int64_t i = 0; i < here; i += W) store(some + i, F::summed(loaded(p, i, here, std::false_type{})));
      total.add_all(some, here);
    }
  }

  static FW_OUTLINE void add_by_bits(Total& total, const S* p, int64_t count) {
    if constexpr (F::as_they_are && !counts_halves<F>) {
      total.add_all(p, count);
    } else if constexpr (F::linear && !std::is_same_v<S, double>) {
      add_bits_of<float>(total, p, count);
    } else if constexpr (!std::is_same_v<S, double>) {
      add_bits_of<double>(total, p, count);
    } else {
      for (int64_t i = 0; i < count; i += W) {
        const Pack<double, W> some = loaded(p, i, count, std::false_type{});
        for (int64_t j = 0; j < std::min<int64_t>(W, count - i); ++j) F::add(total, some[static_cast<int>(j)]);
      }
    }
  }
};

}  // namespace foldwise::FOLDWISE_ISA
