#include "ops/operator.h"

namespace ingot::ops {

namespace {

#define REASON(group, sentence) constexpr const char* why_##group = sentence;
#define X(group, target)
#include "ops/absent.def"
#undef REASON
#undef X

constexpr Absent list[] = {
#define REASON(group, sentence)
#define X(group, target) {target, #group, why_##group},
#include "ops/absent.def"
#undef REASON
#undef X
};

}  // namespace

std::span<const Absent> absent() { return list; }

}  // namespace ingot::ops
