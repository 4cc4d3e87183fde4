// The content of ingot.h's opaque handles.
#pragma once
#include <memory>

#include "base/error.h"
#include "compile/options.h"
#include "ingot/ingot.h"
#include "runtime/session.h"
#include "runtime/state.h"

struct ingot_options {
  ingot::compile::Options values;
};
struct ingot_plan {
  std::shared_ptr<const ingot::plan::Plan> plan;
  // Per function and binding: dims at the usual sizes; ingot_binding points to them.
  std::vector<std::vector<std::vector<int64_t>>> usual_dims;

  explicit ingot_plan(std::shared_ptr<const ingot::plan::Plan> of);
};
struct ingot_weights {
  std::shared_ptr<ingot::runtime::Weights> weights;
  std::shared_ptr<const ingot::plan::Plan> given;  // the plan that the caller gave; `weights` may use one compiled from its graph
};
struct ingot_state {
  std::shared_ptr<ingot::runtime::State> state;
};
namespace ingot::api {

class CallersMemory final : public Allocator {
 public:
  explicit CallersMemory(const ingot_allocator& of) : of_(of) {}
  void* allocate(size_t bytes) override {
    void* memory = of_.allocate(of_.user, bytes);
    if (memory == nullptr) throw Error(Code::out_of_memory, fmt::format("the allocator given has no {} bytes for a run", bytes)).fix("use smaller inputs, or free memory");
    return memory;
  }
  void release(void* memory, size_t bytes) noexcept override { of_.release(of_.user, memory, bytes); }

 private:
  ingot_allocator of_;
};

}  // namespace ingot::api

struct ingot_session {
  std::shared_ptr<const ingot::plan::Plan> plan;
  ingot::runtime::Session session;
  std::vector<ingot::runtime::HostTensor> inputs, outputs;
  std::vector<std::vector<int64_t>> output_dims;
  std::unique_ptr<ingot::api::CallersMemory> run_memory;
};

namespace ingot::api {

// Error (invalid_input) if there is no such function.
const plan::Function& function_of(const ingot_plan& plan, uint32_t function);
void read_tensors(const ingot_tensor* tensors, size_t count, std::vector<runtime::HostTensor>& out);
inline Threads workers_of(const ingot_options* options) {
  if (options == nullptr) return {};
  return {static_cast<int>(options->values.integer("threads")), static_cast<int>(options->values.integer("wait"))};
}
inline int threads_of(const ingot_options* options) { return workers_of(options).count; }
inline ingot_memory memory_of(const runtime::Weights::Usage& u) { return {u.resident, u.streamed, u.ring, u.arena, u.limit, u.least}; }

}  // namespace ingot::api
