#include "backend/cuda/gpu_step_test.h"

#include "backend/cuda/backend_run.h"
#include "backend/cuda/matrix_text.h"
#include "backend/cuda/prelude.h"
#include "base/error.h"

namespace ingot::backend::cuda {

void run_on_gpu(const EmittedStep& step, const std::string& text, const std::vector<std::string>& kernels, const std::vector<HostTensor*>& tensors, std::span<const int64_t> sizes,
                size_t shift) {
  DevicePtr device = Device::open(0);
  const int sm = device->properties().sm;
  std::string all = std::string(prelude()) + std::string(matrix_instructions()) + std::string(matrix_text()) + text;
  Compiled code = compile(std::vector<CompileJob>{{all, sm, CompileJob::Form::cubin, true}});
  CodeImage image{false, static_cast<uint32_t>(sm), kernels, code.code[0]};
  Gpu gpu(0, std::span(&image, 1));
  GpuLane lane(gpu.device());
  std::vector<DeviceMemory> memory;
  std::vector<TensorRef> operands;
  for (const HostTensor* t : tensors) {
    memory.emplace_back(gpu.device(), t->bytes.size() + shift + 1);
    memory.back().copy_from(t->bytes.data(), t->bytes.size(), nullptr, shift);
    operands.push_back({reinterpret_cast<std::byte*>(memory.back().address() + shift), t->dtype, static_cast<int>(t->dims.size()), t->dims.data(), t->strides.data()});
  }
  gpu.device()->synchronize();
  const RunKernel* kernel = gpu.find(step.kernel);
  std::shared_ptr<const void> constants = kernel->load(step.constants, operands.size(), sizes.size());
  Call call;
  call.operands = operands;
  call.sizes = sizes;
  call.constants = constants.get();
  call.backend = &gpu;
  call.lane = &lane;
  Resolved resolved = kernel->resolve(call);
  DeviceMemory scratch(gpu.device(), resolved.scratch);
  call.prepared = resolved.state.get();
  call.scratch = reinterpret_cast<std::byte*>(scratch.address());
  kernel->run(call);
  lane.wait();
  for (size_t k = 0; k < tensors.size(); ++k) memory[k].copy_to(tensors[k]->bytes.data(), tensors[k]->bytes.size(), nullptr, shift);
  gpu.device()->synchronize();
}

}  // namespace ingot::backend::cuda
