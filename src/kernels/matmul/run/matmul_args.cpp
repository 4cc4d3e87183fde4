#include "kernels/matmul/run/matmul_args.h"

#include <algorithm>

#include "base/error.h"
#include "base/fields.h"

namespace ingot::kernels {

namespace {

enum Flag : uint8_t { packed = 1, in_order = 2, mapped = 4, grouped = 8 };

}  // namespace

std::vector<std::byte> serialise(const MatmulArgs& args) {
  FieldWriter w;
  w.field(uint8_t{1});
  w.field(static_cast<uint8_t>((args.packed ? packed : 0) | (args.in_order ? in_order : 0) | (args.map ? mapped : 0) | (args.groups.size > 0 ? grouped : 0)));
  w.field(args.batch_rank);
  if (args.map) {
    w.all(args.map->rank, args.map->m_rank, args.map->k_rank);
    for (int64_t step : args.map->steps) w.field(step);
  }
  if (args.groups.size > 0) w.all(args.groups.size, args.groups.scale_bytes, static_cast<uint8_t>(args.groups.zero));
  w.out.insert(w.out.end(), args.body.begin(), args.body.end());
  return std::move(w.out);
}

MatmulArgs parse_matmul(std::span<const std::byte> bytes) {
  FieldReader r{bytes, "the arguments of a matmul step"};
  uint8_t version, flags;
  MatmulArgs args;
  r.all(version, flags, args.batch_rank);
  bool good = version == 1 && flags <= (packed | in_order | mapped | grouped);
  args.packed = (flags & packed) != 0;
  args.in_order = (flags & in_order) != 0;
  if (good && (flags & mapped) != 0) {
    GemmMap map;
    r.all(map.rank, map.m_rank, map.k_rank);
    auto possible = [](uint8_t rank) { return rank >= 1 && rank <= GemmMap::max_rank; };
    good = possible(map.rank) && possible(map.m_rank) && possible(map.k_rank) && args.batch_rank <= GemmMap::max_rank;
    if (good) {
      map.steps.resize(size_t{map.rank} * (args.batch_rank + map.m_rank + map.k_rank));
      for (int64_t& step : map.steps) r.field(step);
      good = std::all_of(map.steps.begin(), map.steps.end(), [](int64_t step) { return step >= 0 && step <= INT32_MAX; });
    }
    args.map = std::move(map);
  }
  if (good && (flags & grouped) != 0) {
    uint8_t zero;
    r.all(args.groups.size, args.groups.scale_bytes, zero);
    args.groups.zero = zero == 1;
    good = args.packed && args.groups.valid() && zero <= 1;
  }
  if (!good) fail(Code::format, "the arguments of a matmul step are damaged");
  args.body = r.in;
  return args;
}

}  // namespace ingot::kernels
