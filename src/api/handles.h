// What the opaque handles of ingot.h hold.
#pragma once
#include <memory>

#include "compile/options.h"
#include "ingot/ingot.h"
#include "runtime/session.h"

struct ingot_options {
  ingot::compile::Options values;
};
struct ingot_plan {
  std::shared_ptr<const ingot::plan::Plan> plan;
  // Per function and binding: dims at the usual sizes, which ingot_binding points at.
  std::vector<std::vector<std::vector<int64_t>>> usual_dims;

  explicit ingot_plan(std::shared_ptr<const ingot::plan::Plan> of);
};
struct ingot_weights {
  std::shared_ptr<ingot::runtime::Weights> weights;
};
struct ingot_session {
  std::shared_ptr<const ingot::plan::Plan> plan;
  ingot::runtime::Session session;
  std::vector<ingot::runtime::HostTensor> inputs, outputs;
  std::vector<std::vector<int64_t>> output_dims;
};

namespace ingot::api {

// Error (invalid_input) when there is no such function.
const plan::Function& function_of(const ingot_plan& plan, uint32_t function);
void read_tensors(const ingot_tensor* tensors, size_t count, std::vector<runtime::HostTensor>& out);

}  // namespace ingot::api
