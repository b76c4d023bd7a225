// Where the extremes of columns are, and what every way of finding places shares. Each strip of columns keeps its best and their
// places; some rows are compared with them at a time.
#pragma once
#include "extremes.h"
#include "interleave.h"
#include "reduce.h"

namespace foldwise::FOLDWISE_ISA {

// The plan is a scan's: kept axes, and a line; `shifted` asks for the last of equals, results are int64 places.
template <class S, class A, bool largest>
struct ArgColumns {
  using Fold = Extreme<S, A, largest>;
  using T = Terms<Fold>;
  using Index = bits_of<A>;
  static constexpr int W = T::W;
  static constexpr int64_t strip = 1024, size = sizeof(S);

  const ScanPlan& plan;
  const Reader<S> reader;
  const int64_t count;
  const bool as_it_lies, from_memory, last;

  ArgColumns(const ScanPlan& p, bool direct)
      : plan(p), reader(p.source, absent_source<S, A>(Fold::absent())), count(length_of(p)),
        as_it_lies(direct && !p.nest_rank && p.along.x == size), from_memory(is_from_memory(count * p.lines * size)), last(p.shifted) {}

  static int64_t length_of(const ScanPlan& plan) {
    if (!plan.nest_rank) return plan.along.size;
    int64_t length = 1;
    for (int a = 0; a < plan.nest_rank; ++a) length *= plan.nest[a].size;
    return length;
  }

  // Whether `x` is more than `held`.
  template <class V>
  static FW_INLINE auto exceeds(V x, V held) {
    const auto beyond = largest ? x > held : x < held;
    if constexpr (!std::is_floating_point_v<A>) return beyond;
    else return beyond | ((x != x) & (held == held));
  }
  template <class V>
  static FW_INLINE V more(V x, V y) { return largest ? (x > y ? x : y) : (x < y ? x : y); }

  // Lines of a few elements, one after the other in memory: turned into as many rows in cache.
  bool lie_narrow(const Axis& kept) const {
    return as_it_lies && count >= 2 && count <= most_interleaved_words && kept.x == count * size;
  }

  // The best so far of a strip of columns, and in which row that is.
  struct Strip {
    alignas(64) A held[strip];
    alignas(64) Index places[strip];
  };

  void columns(const Axis& kept) {
    const int64_t strips = (kept.size + strip - 1) / strip;
    const int64_t units = plan.lines / kept.size * strips;
    share(units, std::min(kept.size, strip) * count * size, [&](int64_t from, int64_t to) {
      S gathered[rows_at_once * strip];
      Strip best;
      for (int64_t unit = from; unit < to; ++unit) {
        const Cursor at(plan.kept, plan.kept_rank - 1, plan.source.x, nullptr, unit / strips);
        const int64_t first = unit % strips * strip, columns = std::min(strip, kept.size - first);
        compare_strip(kept, at.x + first * kept.x, columns, gathered, best);
        char* out = plan.sink.out + at.out + first * kept.out;
        for (int64_t c = 0; c < columns; ++c) {
          const int64_t place = best.places[c];
          std::memcpy(out + c * kept.out, &place, sizeof place);
        }
      }
    });
  }

  // Some rows side by side, from the end if it is the last of equals that counts: it is the first to come then. What comes twice
  // changes nothing, so there are always as many rows, and vectors are whole. Plain comparisons leave a NaN where it is and raise a
  // flag: what was not looked at since is compared again, and the rest carefully. What is built for size is careful from the start.
  static constexpr int rows_at_once = 8, rows_per_look = 64;
  FW_INLINE void compare_strip(const Axis& kept, const char* x, int64_t columns, S* gathered, Strip& best) const {
    const bool rows_lie = plan.source.direct && kept.x == size, narrow = lie_narrow(kept), asks = from_memory && rows_lie;
    // Short rows are gathered many at a time, those that adjoin as one.
    const bool many = !rows_lie && !narrow && kept.size <= 32, adjoin = many && plan.along.x == kept.size * kept.x;
    const int64_t pitch = narrow ? strip : adjoin ? columns : (columns + W - 1) / W * W;
    const int64_t at_once = many ? rows_at_once * strip / pitch : rows_at_once;
    if (narrow) deinterleave(gathered, strip, x, count, columns);
    for (int64_t c = 0; c < columns; c += W) {
      store(best.held + c, splat<A, W>(Fold::absent()));
      store(best.places + c, splat<Index, W>(static_cast<Index>(last ? count - 1 : 0)));
    }
    bool careful = small && Fold::guarded;
    if constexpr (Fold::guarded) clear_flags();
    for (int64_t seen = 0, looked_at = 0, some; seen < count; seen += some) {
      some = std::min(at_once, count - seen);
      const int64_t row = last ? count - seen - some : seen;
      const char* in = x + row * plan.along.x;
      int64_t stride = plan.along.x;
      if (!rows_lie) {
        stride = pitch * size;
        if (adjoin) reader(gathered, in, nullptr, kept, some * columns);
        else if (!narrow) reader.lines(gathered, pitch, in, nullptr, kept, plan.along, columns, some);
        in = reinterpret_cast<const char*>(gathered);
      }
      for (int64_t done = 0; done < some; done += rows_at_once) {
        const S* rows[rows_at_once];
        Index now[rows_at_once];
        for (int r = 0; r < rows_at_once; ++r) {
          const int64_t turn = std::min(done + r, some - 1), here = last ? some - 1 - turn : turn;
          rows[r] = reinterpret_cast<const S*>(in + here * stride);
          now[r] = static_cast<Index>(row + here);
        }
        compare_rows(rows, now, asks ? (last ? -rows_at_once : rows_at_once) * stride : 0, columns, careful, best);
      }
      if (Fold::guarded && !careful && (seen + some == count || seen + some - looked_at >= rows_per_look)) {
        settle(&best);
        careful = spoilt<Fold>();
        if (careful) seen = looked_at, some = 0;
        else looked_at = seen + some;
      }
    }
  }

  // What is read next lies `ahead`, or 0.
  static FW_INLINE void compare_rows(const S* const* rows, const Index* now, int64_t ahead, int64_t columns, bool careful, Strip& best) {
    const auto in_a_loop = [](auto&& act) FW_INLINED {
#pragma GCC unroll 1
      for (int r = 0; r < rows_at_once; ++r) act(r);
    };
    const auto compare = [&](int64_t c, auto&& load_from, auto&& each_row, auto with_care) FW_INLINED {
      auto value = load<A, W>(best.held + c).v[0];
      auto place = load<Index, W>(best.places + c).v[0];
      if (ahead) in_a_loop([&](int r) FW_INLINED { ask_for(rows[r] + c, ahead); });
      each_row([&](int r) FW_INLINED {
        auto x = load_from(rows[r] + c).v[0];
        const auto when = now[r] - decltype(place){};
        if (Fold::guarded && with_care) {
          const auto better = exceeds(x, value);
          value = better ? x : value;
          place = better ? when : place;
        } else {
          const auto better = largest ? x > value : x < value;
          place = better ? when : place;
          if constexpr (std::is_floating_point_v<A>) x = by_itself(x);  // or GCC takes what the comparison chose, which is known later
          value = more(x, value);
        }
      });
      store_vector(best.held + c, value);
      store_vector(best.places + c, place);
    };
    if (small || columns < W) {
      for (int64_t c = 0; c < columns; c += W) {
        const int64_t some = std::min<int64_t>(columns - c, W);
        compare(c, [some](const S* p) FW_INLINED { return some == W ? load<A, W>(p) : T::load_some(p, some).value; }, in_a_loop, careful);
      }
      return;
    }
    const auto each_vector = [&](auto&& each_row, auto with_care) FW_INLINED {
      for (int64_t next = 0; next < columns; next += W) {
        compare(std::min(next, columns - W), [](const S* p) FW_INLINED { return load<A, W>(p); }, each_row, with_care);
      }
    };
    if (!Fold::guarded || !careful) return each_vector([](auto&& act) FW_INLINED { repeat<rows_at_once>(act); }, std::false_type{});
    // Row by row, as each careful step waits long for the one before.
    for (int r = 0; r < rows_at_once; ++r, ahead = 0) each_vector([r](auto&& act) FW_INLINED { act(r); }, std::true_type{});
  }
};

}  // namespace foldwise::FOLDWISE_ISA
