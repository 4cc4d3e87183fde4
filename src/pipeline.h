// The way of a model on one page: captured graph -> canonical graph -> plan.
#pragma once
#include <functional>
#include <string_view>

#include "capture/capture.h"
#include "compile/options.h"
#include "plan/plan.h"

namespace ingot {

// `progress(stage, fraction)` returns false to cancel. INGOT_DUMP=folder writes every stage's text there; INGOT_LOG=info or
// debug prints how long each took.
plan::Plan build(const capture::Model&, const compile::Options&, const std::function<bool(std::string_view, double)>& progress = {});

}  // namespace ingot
