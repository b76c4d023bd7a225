#include "company.h"

#include <algorithm>
#include <bit>

#include "units.h"

namespace foldwise {

namespace {

constexpr auto no_pieces = [](int64_t, int64_t) {};
constexpr auto no_steps = [](int64_t, Turns&) {};
constexpr auto no_finish = [](int64_t, char*) {};

}  // namespace

int Company::parts() const {
  unsigned asked = 0;
  for (const Member* member : members_) asked |= 1u << static_cast<int>(member->part);
  return std::popcount(asked & ((1u << parts_in_loop) - 1));
}

void Company::next() {
  Member& member = *members_[parts_.size()];
  member.plan.company = this;
  member.fits = member.kernel(member.plan);
}

void Company::join(const Part& part) {
  parts_.push_back(part);
  if (parts_.size() < members_.size()) next();
  else work();
}

void Company::join(int64_t units, Pieces pieces) {
  join(Part{units, 0, pieces, no_steps, no_finish, parts_.size()});
}

void Company::join(int64_t tasks, int64_t steps, Stepwise stepwise, FinishTask finish) {
  const auto kernel = members_[parts_.size()]->kernel;
  std::size_t maker = 0;
  // The same kernel, and the same tasks: the number of threads may have been changed between the two.
  const auto is_alike = [&](std::size_t other) {
    return members_[other]->kernel == kernel && (other == parts_.size() || (parts_[other].units == tasks && parts_[other].steps == steps));
  };
  while (!is_alike(maker)) ++maker;
  join(Part{tasks, steps, no_pieces, stepwise, finish, maker});
}

void Company::work() const {
  std::vector<const Part*> left;
  for (const Part& part : parts_) {
    if (&part == &parts_[part.maker]) left.push_back(&part);
  }
  // What one dtype is read as may be walked otherwise than what another is read as: those that go alike go together.
  while (!left.empty()) {
    const Part& first = *left.front();
    const auto others = std::stable_partition(left.begin(), left.end(), [&](const Part* part) {
      return part->steps == first.steps && (!part->steps || part->units == first.units);
    });
    const std::vector<const Part*> together(left.begin(), others);
    left.erase(left.begin(), others);
    if (first.steps) by_steps(together);
    else by_pieces(together);
  }
}

void Company::by_steps(const std::vector<const Part*>& parts) const {
  const int64_t tasks = parts.front()->units;
  share(tasks, bytes_ / std::max<int64_t>(1, tasks), [&](int64_t first, int64_t last) {
    for (int64_t task = first; task < last; ++task) Turns(*this, parts, task);
  });
}

void Turns::take(Calls<void(int64_t step)> step, Partner* partner) {
  partners_[place_] = partner;
  steps_[place_++] = step;
  if (place() < count()) return next();
  for (int64_t s = 0; s < parts_.front()->steps; ++s) {
    for (int i = 0; i < count(); ++i) steps_[i](s);
  }
}

void Turns::leave(int place, char* made, int64_t bytes) const {
  const Company::Part* maker = parts_[place];
  for (const Company::Part& part : company_.parts_) {
    if (&part == maker || &company_.parts_[part.maker] != maker) continue;
    const Room copy(bytes);
    std::copy_n(made, bytes, copy.begin());
    part.finish(task_, copy.begin());
  }
  maker->finish(task_, made);
}

void Company::by_pieces(const std::vector<const Part*>& parts) const {
  const int64_t steps = std::max<int64_t>(1, bytes_ / piece_bytes);
  share(steps, piece_bytes, [&](int64_t first, int64_t last) {
    for (int64_t step = first; step < last; ++step) {
      for (const Part* part : parts) {
        const int64_t from = part->place(step, steps), to = part->place(step + 1, steps);
        if (from < to) part->pieces(from, to);
      }
    }
  });
}

// Where a step begins: as far on in the pieces as in memory, and at a round number, that vectors of results be whole.
int64_t Company::Part::place(int64_t step, int64_t steps) const {
  constexpr int64_t round = 64;
  const int64_t exact = static_cast<int64_t>(static_cast<__int128>(units) * step / steps);
  return step == steps || units < round * steps / 2 ? exact : exact / round * round;
}

}  // namespace foldwise
