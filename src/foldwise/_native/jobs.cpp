#define PY_SSIZE_T_CLEAN
#define PY_ARRAY_UNIQUE_SYMBOL foldwise_numpy
#define NO_IMPORT_ARRAY
#include "jobs.h"

#include <algorithm>

#include "company.h"

namespace foldwise {

namespace {

constexpr int64_t bytes_in_cache = 128 << 10;  // what is read several times at no cost

Source source_of(const View& x, Dtype dtype, Dtype column_dtype, const View* mask) {
  Source source;
  source.dtype = dtype;
  source.swapped = x.swapped;
  source.direct = dtype == column_dtype && !source.swapped && !mask;
  source.x = x.data;
  source.mask = mask ? mask->data : nullptr;
  return source;
}

constexpr Dtype column_dtypes[] = {Dtype::float16, Dtype::bfloat16, Dtype::float32, Dtype::float64,
                                   Dtype::int32, Dtype::int64, Dtype::uint64, Dtype::uint8,
                                   Dtype::int8, Dtype::int16, Dtype::uint16};

// Where one kernel serves integers of either sign, it reads the one as the other; and where it asks whether something is 0,
// one byte, short integer or sixteen-bit float is like another.
Dtype seen_by(Column column, Dtype dtype) {
  if (column == Column::int64 && dtype == Dtype::uint64) return Dtype::int64;
  if (column == Column::int32 && dtype == Dtype::uint32) return Dtype::int32;
  if (column == Column::uint8) return Dtype::uint8;
  if (column == Column::int16) return Dtype::int16;
  if (column == Column::float16 && dtype == Dtype::bfloat16) return Dtype::float16;
  return dtype;
}

bool same_bits(Dtype a, Dtype b) {
  return a == b || (!is_float(a) && !is_float(b) && a != Dtype::boolean && b != Dtype::boolean && item_size(a) == item_size(b));
}

void reduce_together(std::vector<Member>& members, int64_t bytes) {
  table.fold_jointly(members.data(), static_cast<int>(members.size()));
  std::vector<Member*> left;
  for (Member& each : members) {
    if (!each.done) left.push_back(&each);
  }
  if (left.size() == 1) left[0]->fits = left[0]->kernel(left[0]->plan);
  else if (!left.empty()) Company(left, bytes).run();
  for (const Member& each : members) repeat_results(each.plan);
}

}  // namespace

void make_plan(ReducePlan& plan, const Reduced& asked, const View& x, const View* mask, uint64_t folded) {
  const Job& job = asked.job;
  const Dtype column_dtype = column_dtypes[static_cast<int>(job.column)];
  // A mean of integers that is a float64 leaves the kernel as its bits.
  const Dtype written = asked.finish.ending == Ending::ratio ? Dtype::int64 : job.out;
  plan.source = source_of(x, seen_by(job.column, job.in), column_dtype, mask);
  if (job.kept != Kept::result) plan.sink = {Dtype::float64, false, asked.out.data, job.kept};
  else plan.sink = {written, same_bits(written, job.kernel().reduced), asked.out.data};
  plan.finish = asked.finish;
  lay_out(plan, {x.rank, x.shape, x.strides, mask ? mask->strides : nullptr, asked.out.strides}, folded);
  plan.finish.count = plan.count;
}

bool reduce_as_planned(const Job& job, const ReducePlan& plan) {
  const bool fits = job.kernel().reduce(plan);
  repeat_results(plan);
  return fits;
}

void make_plan(ScanPlan& plan, const Job& job, const View& x, int axis, Output out, int64_t length, bool reverse,
               bool shifted, const Finish& finish, Output carried) {
  plan.source = source_of(x, seen_by(job.column, job.in), column_dtypes[static_cast<int>(job.column)], nullptr);
  plan.sink = {job.out, same_bits(job.out, job.scan().value), out.data};
  plan.finish = finish;
  plan.shifted = shifted;
  plan.carried = carried.data;
  lay_out(plan, {x.rank, x.shape, x.strides, carried.strides, out.strides}, axis, length, reverse);
}

void reduce_array(const View& x, int64_t bytes, const View* mask, uint64_t folded, Reduced* asked, int count) {
  if (count == 1) {
    ReducePlan plan;
    make_plan(plan, *asked, x, mask, folded);
    return run(bytes, [&] { asked->fits = reduce_as_planned(asked->job, plan); });
  }
  if (bytes <= bytes_in_cache) {
    return run(bytes, [&] {
      ReducePlan plan;
      for (int i = 0; i < count; ++i) {
        make_plan(plan, asked[i], x, mask, folded);
        asked[i].fits = reduce_as_planned(asked[i].job, plan);
      }
    });
  }
  for (int first = 0; first < count; first += most_together) {
    std::vector<Member> members(std::min(most_together, count - first));
    Reduced* some = asked + first;
    for (std::size_t i = 0; i < members.size(); ++i) {
      const Kernel& kernel = some[i].job.kernel();
      members[i].kernel = kernel.reduce;
      members[i].part = kernel.part;
      members[i].reduced = kernel.reduced;
      make_plan(members[i].plan, some[i], x, mask, folded);
    }
    run(bytes, [&] { reduce_together(members, bytes); });
    for (std::size_t i = 0; i < members.size(); ++i) some[i].fits = members[i].fits;
  }
}

bool scan_array(const Job& job, PyArrayObject* x, int axis, Output out, int64_t length, bool reverse, bool shifted,
                const Finish& finish, Output carried) {
  ScanPlan plan;
  make_plan(plan, job, view_of(x), axis, out, length, reverse, shifted, finish, carried);
  bool fits;
  run(bytes_of(x), [&] { fits = job.scan().run(plan); });
  return fits;
}

}  // namespace foldwise
