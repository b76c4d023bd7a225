// Compiled once per ISA, as what it calls is.
#include "sequences.h"

#include <atomic>
#include <bit>
#include <optional>

#include "lines.h"
#include "short_sums.h"

namespace foldwise::FOLDWISE_ISA {

namespace {

// One of a company that goes through a sequence, some of it.
struct SequenceTaker : Taker {
  const SequenceFold& fold;
  void* const state;
  const Walk again;
  const int64_t last;
  std::optional<Room> span;  // of a leader
  unsigned raised = 0;

  SequenceTaker(const SequenceFold& f, void* s, Walk walk, int64_t end, Dtype dtype, bool leads)
      : Taker(Way::sequence, f.part, f.real, f.item, dtype, leads), fold(f), state(s), again(walk), last(end) {}

  // Elements of all, the first of them at that place of the sequence; memory goes on at `next`, if it is to be fetched.
  void take(const char* p, int64_t at, int64_t count, const char* next) {
    if (!span) span.emplace(loop->state_bytes);
    while (count) {
      const int64_t from = at % JointLoop::span, some = std::min(count, JointLoop::span - from);
      const char *end = p + some * fold.item, *then = some < count || !next ? end : next;
      if (!from) {
        loop->open(span->begin());
        raised = 0;
      }
      clear_flags();
      loop->take(span->begin(), p, from, some, {then == end ? JointLoop::distance : then - p, then != end, 0, next != nullptr});
      raised |= noted_flags();
      p = end;
      at += some;
      count -= some;
      if (at % JointLoop::span == 0 || at == last) give(from + some);
    }
  }

 private:
  void give(int64_t count) const {
    const char* lanes[parts_in_loop];
    loop->close(span->begin(), count, lanes);
    each_part<SequenceTaker>([&](int i, SequenceTaker& part) { part.fold.give(part.state, lanes[i], count, raised, part.again); });
  }
};

constexpr int64_t side_by_side_bytes = 256 << 10;
constexpr int64_t turn_bytes = 2048;           // of elements that do not lie in order
constexpr int64_t company_chunk_bytes = 1 << 20;
constexpr int64_t room_on_stack = 4 << 10;  // where each of a company keeps what short rows leave: its own costs them a third of their time

struct Sequences {
  const ReducePlan& plan;
  const SequenceFold& fold;
  const void* const reduction;
  const bool one, from_memory, fetches;
  const int64_t k;
  const int unit_rank;
  const Axis line;  // the innermost one that is folded
  Axis elements[max_rank];  // the folded ones, of interleaved sequences as if they were one
  const bool as_they_lie;
  const std::optional<ShortTotals> totals;
  const int64_t tile_bytes, plain_bytes;
  int64_t units = 1;
  std::atomic<bool> fits{true};

  Sequences(const ReducePlan& p, const SequenceFold& f, const void* r, bool one_at_a_time, bool memory)
      : plan(p),
        fold(f),
        reduction(r),
        one(one_at_a_time),
        from_memory(memory),
        fetches(memory && (!p.company || p.company->leads())),
        k(one ? 1 : p.kept[p.kept_rank - 1].size),
        unit_rank(one ? p.kept_rank : p.kept_rank - 1),
        line(p.fold_rank ? p.fold[p.fold_rank - 1] : Axis{1, f.item, 0, 0}),
        as_they_lie(p.source.direct && line.x == k * f.item && (p.fold_rank <= 1 || lines_are_long(f))),
        totals(f.adds && ShortTotals::suit(p) ? std::optional<ShortTotals>(p) : std::nullopt),
        tile_bytes(f.tile * k),
        plain_bytes(f.plain_room * k) {
    for (int a = 0; a < unit_rank; ++a) units *= plan.kept[a].size;
    std::copy_n(plan.fold, plan.fold_rank, elements);
    if (k > 1) elements[plan.fold_rank - 1] = {line.size * k, line.x / k, 0, 0};
  }

  // So long that taking them one by one costs less than a copy; where a step goes on in the next line, that costs more.
  bool lines_are_long(const SequenceFold& f) const {
    constexpr int64_t least_bytes = 1536;
    return line.size % f.lanes == 0 ? line.size * 8 >= f.block : f.anywhere && line.size * f.item >= least_bytes;
  }

  Cursor kept_cursor(int64_t unit) const { return Cursor(plan.kept, unit_rank, plan.source.x, plan.source.mask, unit); }

  // Where they lie, or gathered block by block. What is read afterwards lies at `after`, if that is known.
  void walk(const char* x, const char* mask, int64_t first, int64_t count, Visit visit, const char* after = nullptr) const {
    Cursor from(plan.fold, plan.fold_rank, x, mask, first);
    if (as_they_lie) {
      while (count) {
        const int64_t some = std::min(count, from.left_in_line());
        const char* p = from.x;
        from.advance(some);
        if (!visit(p, some, some == count && after ? after : from.x)) return;
        count -= some;
      }
      return;
    }
    if (totals) return visit_total(x, first, count, visit);
    const auto sequences = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(k)));
    const int64_t step = k * fold.item, most = std::max(fold.lanes, fold.block / sequences);
    const Room gathered(most * step);
    const bool copied = plan.source.direct && line.x == step;
    Cursor each(elements, plan.fold_rank, x, mask, first * k);
    while (count) {
      const int64_t some = std::min(most, count);
      const bool fetched = fetches && line.x <= 64;
      if (!copied) {
        // In turns: little is asked for while as much is read.
        const int64_t turn = fetched ? std::max<int64_t>(1, turn_bytes / std::max<int64_t>(std::abs(line.x), 1)) : some;
        for (int64_t done = 0, here; done < some; done += here) {
          here = std::min(turn, some - done);
          if (fetched) fetch_ahead(each.x, here, line.x, lines_come_first() ? 8192 : 4096);
          fold.read(reduction, gathered.begin() + done * step, each, here * k);
        }
      } else {
        if (fetched) fetch_ahead(from.x, some, line.x, 4096);
        copy_lines(gathered.begin(), from, some);
      }
      if (!visit(gathered.begin(), some, nullptr)) return;
      count -= some;
    }
  }

  // In place of elements what they come to, in a step of which nothing else is there.
  void visit_total(const char* x, int64_t first, int64_t count, Visit visit) const {
    const Room step(fold.lanes * k * fold.item);
    auto* const sums = reinterpret_cast<uint64_t*>(step.begin());
    std::fill_n(sums, fold.lanes * k, 0);
    if (k == 1) totals->of_lines(x, 1, 0, first, first + count, fetches, sums);
    else totals->of_rows(x, k, first, first + count, sums);
    visit(step.begin(), fold.lanes, nullptr);
  }

  // So many elements of lines that lie apart. Whole lines are a fixed distance apart as long as the axis outside does not end.
  FW_INLINE void copy_lines(char* to, Cursor& from, int64_t count) const {
    const int64_t step = k * fold.item, apart = plan.fold[plan.fold_rank - 2].x;
    while (count) {
      const int64_t here = std::min(count, from.left_in_line());
      if (here < line.size) {
        copy_stretch(to, from.x, here * step);
        to += here * step;
        count -= here;
        from.advance(here);
        continue;
      }
      const char* x = from.x;
      int64_t lines = 0;
      for (const int64_t most = from.lines_left(); lines < most && count >= here; ++lines, x += apart, to += here * step, count -= here) {
        copy_stretch(to, x, here * step);
      }
      from.advance(lines, 1);
    }
  }

  void finish(int64_t unit, char* tile) {
    if (!fold.finish(plan, reduction, tile, k, plan.sink.out + kept_cursor(unit).out)) fits.store(false, std::memory_order_relaxed);
  }

  void run() {
    const int64_t element_bytes = k * item_size(plan.source.dtype);
    const int64_t stretch = line.size * fold.item;
    const bool far_apart = one && plan.source.direct && line.x == fold.item && plan.fold_rank > 1 && plan.kept_rank &&
                           plan.kept[plan.kept_rank - 1].x == stretch;
    const bool together = far_apart && units >= 4 * thread_count() && (as_they_lie || pays_to_hold());
    if (plan.company && plan.count * element_bytes > small_unit_bytes) in_company(element_bytes);
    else if (together) side_by_side();
    else one_by_one();
  }

  Units units_of(int64_t blocks) const { return {units, plan.count * k * fold.item * fold.effort, blocks, tile_bytes}; }

  void one_by_one() {
    const auto fold_blocks = [&](int64_t unit, int64_t first, int64_t last, char* tiles) {
      Cursor start = kept_cursor(unit);
      const char *const x = start.x, *const mask = start.mask;
      const auto here = [&](int64_t from, int64_t count, Visit visit) { walk(x, mask, from, count, visit); };
      const Room state(fold.state), plain(plain_bytes);
      first *= fold.block;
      const int64_t end = std::min(plan.count, last * fold.block);
      const bool ends = end == plan.count && unit + 1 < units;
      if (ends) start.advance(1);
      fold.open(state.begin(), k, first, tiles, plain.begin());
      walk(x, mask, first, end - first, [&](const char* p, int64_t some, const char* next) {
        return fold.take(state.begin(), p, some, fetches ? next : nullptr, here);
      }, ends ? start.x : nullptr);
      fold.end(state.begin(), here);
    };
    units_of((plan.count + fold.block - 1) / fold.block)
        .fold_each(plan, fold_blocks,
                   [&](int64_t, char* tiles, const char* parts, int64_t chunks) { fold.join(tiles, parts, chunks, k); },
                   [&](int64_t unit, char* tile) { finish(unit, tile); });
  }

  // Into how many groups neighbours are divided that are walked together, by what each of them takes of the second cache: so many that
  // the threads share them evenly.
  int64_t groups_of(int64_t bytes) const {
    const int64_t most = plan.kept[plan.kept_rank - 1].size, outer = units / most, threads = thread_count();
    const int64_t together = std::clamp<int64_t>(side_by_side_bytes / bytes, 1, most), fewest = (most + together - 1) / together;
    return std::min(most, outer % threads ? (fewest + threads - 1) / threads * threads : fewest);
  }
  // What is no whole step waits for more: a block of it, and what comes before it is taken.
  int64_t room_to_hold() const { return (fold.block * fold.item + line.size * fold.item + line_bytes - 1) / line_bytes * line_bytes; }
  // Beyond the caches, and where some of them fill lines of cache that come at once.
  bool pays_to_hold() const {
    constexpr int64_t least_bytes = 32 << 20, fewest = 4;
    const int64_t most = plan.kept[plan.kept_rank - 1].size;
    return plan.count * units * fold.item >= least_bytes && line.size * fold.item > 2 * line_bytes &&
           most / groups_of(room_to_hold()) >= fewest;
  }

  // Stretches of one sequence lie far apart, and those of its neighbours between them: walked together, as memory goes. What a
  // fold does not take as it lies is held until it comes to a block.
  void side_by_side() {
    const Axis& next_to = plan.kept[plan.kept_rank - 1];
    const int64_t most = next_to.size, stretch = next_to.x, held_bytes = as_they_lie ? 0 : room_to_hold();
    const int64_t room = counter_depth((plan.count + fold.block - 1) / fold.block) * tile_bytes;
    const int64_t groups = groups_of(held_bytes + room + plain_bytes + fold.state), together = (most + groups - 1) / groups;
    const int64_t per_line = (most + together - 1) / together;
    const int64_t lines = plan.count / line.size;
    divide(plan, units / most * per_line, together * plan.count * fold.item * fold.effort, [&](int64_t first, int64_t last) {
      const Room tiles(together * room), plain(together * plain_bytes), states(together * fold.state), held(together * held_bytes);
      for (int64_t group = first; group < last; ++group) {
        const int64_t unit = group / per_line * most + group % per_line * together;
        const int64_t sequences = std::min(together, most - group % per_line * together);
        // So many further on, among these or in the line that comes next, is what is read soon.
        const int64_t later = std::min(sequences, (prefetch_distance + stretch - 1) / stretch);
        const char* x = kept_cursor(unit).x;
        const auto each = [&](auto&& act) {
          for (int64_t i = 0; i < sequences; ++i) {
            const auto again = [&](int64_t from, int64_t count, Visit visit) { walk(x + i * next_to.x, nullptr, from, count, visit); };
            act(i, states.begin() + i * fold.state, again);
          }
        };
        each([&](int64_t i, char* state, Walk) { fold.open(state, 1, 0, tiles.begin() + i * room, plain.begin() + i * plain_bytes); });
        Cursor from(plan.fold, plan.fold_rank - 1, x, nullptr, 0);
        for (int64_t done = 0; done < lines; ++done) {
          const char* const first_line = from.x;
          from.advance(1);
          const int64_t to_next = done + 1 < lines ? from.x - first_line - sequences * next_to.x : 0;
          each([&](int64_t i, char* state, Walk again) {
            const char* p = first_line + i * next_to.x;
            if (as_they_lie) {
              fold.take(state, p, line.size, fetches ? p + stretch : nullptr, again);
              return;
            }
            char* const here = held.begin() + i * held_bytes;
            const int64_t before = done * line.size % fold.block, all = before + line.size;
            const int64_t taken = done + 1 < lines ? all / fold.block * fold.block : all;
            fetch_lines(p + later * next_to.x + (i + later < sequences ? 0 : to_next), stretch, true);
            copy_stretch(here + before * fold.item, p, stretch);
            if (!taken) return;
            fold.take(state, here, taken, nullptr, again);
            std::memcpy(here, here + taken * fold.item, (all - taken) * fold.item);
          });
        }
        each([&](int64_t i, char* state, Walk again) {
          fold.end(state, again);
          finish(unit + i, tiles.begin() + i * room);
        });
      }
    });
  }

  // Chunk by chunk, every chunk in small steps, between those of others that take the same elements.
  void in_company(int64_t element_bytes) {
    const auto so_many = [&](int64_t bytes) { return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(bytes / element_bytes))); };
    const int64_t chunk = so_many(company_chunk_bytes), chunks = (plan.count + chunk - 1) / chunk;
    const bool jointly = one && plan.company->parts() >= JointLoop::fewest && joint_loop_for(plan.source.dtype);
    const int64_t step = std::min(so_many(jointly ? Company::joint_step_bytes : Company::step_bytes), plan.count), steps = (std::min(chunk, plan.count) + step - 1) / step;
    constexpr auto lines = [](int64_t bytes) { return (bytes + 63) / 64 * 64; };
    const int64_t tiles_bytes = lines(counter_depth((std::min(chunk, plan.count) + fold.block - 1) / fold.block) * tile_bytes);
    const Room parts(chunks > 1 ? units * chunks * tile_bytes : 0);
    const auto fold_task = [&](int64_t task, Turns& turns) {
      const Cursor start = kept_cursor(task / chunks);
      const int64_t first = task % chunks * chunk, last = std::min(plan.count, first + chunk);
      alignas(64) char nearby[room_on_stack];
      const Room room(tiles_bytes + lines(plain_bytes) + fold.state, nearby, sizeof nearby);
      char *const tiles = room.begin(), *const plain = tiles + tiles_bytes, *const state = plain + lines(plain_bytes);
      const auto here = [&](int64_t from, int64_t count, Visit visit) { walk(start.x, start.mask, from, count, visit); };
      fold.open(state, k, first, tiles, plain);
      const int place = turns.place(), company = turns.count();
      // What the next step reads, or of converted elements what they are converted from: each of the company fetches a part.
      const int64_t step_bytes = step * element_bytes, to_part = step_bytes + place * step_bytes / company;
      const bool in_whole_steps = plan.fold_rank <= 1 || line.size % JointLoop::most_step == 0;
      SequenceTaker self(fold, state, here, last, plan.source.dtype, one && as_they_lie && in_whole_steps);
      turns.take([&](int64_t number) {
        if (number == 0 && place == 0) arrange(turns.partners());
        if (self.follows) return;
        const int64_t from = first + number * step, count = std::min(step, last - from);
        if (count <= 0) return;
        const char* soon = start.x + from * line.x + to_part;
        int64_t at = from;
        here(from, count, [&](const char* p, int64_t some, const char* next) {
          if (self.loop) return self.take(p, std::exchange(at, at + some), some, from_memory ? next : nullptr), true;
          if (from_memory && as_they_lie && some == count) {
            fold.fetch(state, p + to_part, company);
          } else if (from_memory && !as_they_lie && plan.fold_rank == 1 && line.x == element_bytes) {
            const int64_t bytes = (totals ? count : some) * element_bytes / company;
            fetch_lines(soon, bytes, true);
            soon += bytes;
          }
          return fold.take(state, p, some, from_memory ? next : nullptr, here);
        });
      }, &self);
      fold.end(state, here);
      turns.leave(place, tiles, tile_bytes);
    };
    plan.company->join(units * chunks, steps, fold_task, [&](int64_t task, char* made) {
      if (chunks > 1) std::memcpy(parts.begin() + task * tile_bytes, made, tile_bytes);
      else finish(task, made);
    });
    if (chunks == 1) return;
    units_of(chunks).join_each(chunks, parts.begin(),
                               [&](int64_t, char* all, const char* some, int64_t count) { fold.join(all, some, count, k); },
                               [&](int64_t unit, char* tile) { finish(unit, tile); });
  }
};

}  // namespace

bool fold_sequences(const ReducePlan& plan, const SequenceFold& fold, const void* reduction, bool one, bool from_memory) {
  Sequences sequences(plan, fold, reduction, one, from_memory);
  sequences.run();
  return sequences.fits;
}

}  // namespace foldwise::FOLDWISE_ISA
