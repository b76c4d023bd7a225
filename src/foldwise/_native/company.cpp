#include "company.h"

#include <algorithm>

namespace foldwise {

void Company::next() {
  Member& member = members_[parts_.size()];
  member.plan.company = this;
  member.fits = member.kernel(member.plan);
}

void Company::join(int64_t units, Pieces run) {
  parts_.push_back({units, run});
  if (parts_.size() < members_.size()) next();
  else work();
}

void Company::work() const {
  const int64_t steps = std::max<int64_t>(1, bytes_ / step_bytes);
  const auto some = [&](int64_t first, int64_t last) {
    for (int64_t step = first; step < last; ++step) {
      for (const Part& part : parts_) {
        const auto at = [&](int64_t place) { return static_cast<int64_t>(static_cast<__int128>(part.units) * place / steps); };
        if (at(step) < at(step + 1)) part.run(at(step), at(step + 1));
      }
    }
  };
  share(steps, step_bytes, some);
}

}  // namespace foldwise
