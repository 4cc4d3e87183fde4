#include "backend/cuda/kernels/gpu_step_test.h"

#include "backend/cuda/compile/prelude.h"
#include "base/error.h"

namespace ingot::backend::cuda {

GpuStep::GpuStep(const EmittedStep& step, const std::string& text, const std::vector<std::string>& kernels, std::vector<TensorRef> operands, std::span<const int64_t> sizes)
    : operands_(std::move(operands)), sizes_(sizes.begin(), sizes.end()) {
  const int sm = Device::open(0)->properties().sm;
  std::vector<CodeImage> images;
  if (!text.empty()) {
    std::string all = std::string(prelude()) + matrix_texts() + text;
    code_ = compile(std::vector<CompileJob>{{all, sm, CompileJob::Form::cubin, true}});
    images.push_back({false, static_cast<uint32_t>(sm), kernels, code_.code[0]});
  }
  gpu_ = std::make_unique<Gpu>(0, images);
  stream_ = std::make_unique<GpuStream>(gpu_->device());
  call_.operands = operands_;
  call_.sizes = sizes_;
  call_.backend = gpu_.get();
  call_.stream = stream_.get();
  // A GEMM's step of the tests has several implementations: the one that a plan's step would run.
  std::vector<std::string> names{step.kernel};
  if (step.kernel.starts_with("gemm_") && step.kernel != "gemm_grouped_convolution") {
    names.clear();
    for (const kernels::GemmArgs::Implementation& i : kernels::parse_gemm_cuda(step.constants).implementations) names.push_back(i.kernel);
  }
  for (const std::string& name : names) {
    const RunKernel* kernel = gpu_->find(name);
    std::shared_ptr<const void> constants = kernel->load(step.constants, operands_.size(), sizes_.size());
    call_.constants = constants.get();
    Resolved found = kernel->resolve(call_);
    if (kernel_ != nullptr && !(found.nanoseconds < resolved_.nanoseconds)) continue;
    kernel_ = kernel;
    constants_ = std::move(constants);
    resolved_ = std::move(found);
  }
  call_.constants = constants_.get();
  scratch_ = DeviceMemory(gpu_->device(), resolved_.scratch);
  call_.prepared = resolved_.state.get();
  call_.scratch = reinterpret_cast<std::byte*>(scratch_.address());
}

void GpuStep::run(StreamHandle stream) {
  stream_->set_stream(stream);
  kernel_->run(call_);
}

std::unique_ptr<Recording> GpuStep::record(int times) {
  return stream_->record([&] {
    for (int k = 0; k < times; ++k) kernel_->run(call_);
  });
}

void GpuStep::replay(const Recording& recording, StreamHandle stream) {
  stream_->set_stream(stream);
  stream_->replay(recording);
}

void run_on_gpu(const EmittedStep& step, const std::string& text, const std::vector<std::string>& kernels, const std::vector<HostTensor*>& tensors, std::span<const int64_t> sizes,
                size_t shift) {
  DevicePtr device = Device::open(0);
  std::vector<DeviceMemory> memory;
  std::vector<TensorRef> operands;
  for (const HostTensor* t : tensors) {
    const size_t bytes = shift * ir::size_of(t->dtype);
    memory.emplace_back(device, t->bytes.size() + bytes + 1);
    memory.back().copy_from(t->bytes.data(), t->bytes.size(), nullptr, bytes);
    operands.push_back({reinterpret_cast<std::byte*>(memory.back().address() + bytes), t->dtype, static_cast<int>(t->dims.size()), t->dims.data(), t->strides.data()});
  }
  device->synchronize();
  GpuStep ready(step, text, kernels, std::move(operands), sizes);
  ready.run(nullptr);
  ready.wait();
  for (size_t k = 0; k < tensors.size(); ++k) memory[k].copy_to(tensors[k]->bytes.data(), tensors[k]->bytes.size(), nullptr, shift * ir::size_of(tensors[k]->dtype));
  device->synchronize();
}

std::vector<ir::Dim> dims_of(const std::vector<int64_t>& v) { return {v.begin(), v.end()}; }

ir::AffineMap windows_of(int64_t n, int64_t height, int64_t width, int64_t c, int64_t r, int64_t stride, int64_t pad) {
  using ir::Dim;
  ir::AffineMap map{dims_of({n, height, width, r, r, c}), {}, std::nullopt};
  map.axes = {{0, {{0, 1}}}, {Dim(-pad), {{1, stride}, {3, 1}}}, {Dim(-pad), {{2, stride}, {4, 1}}}, {0, {{5, 1}}}};
  return map;
}

}  // namespace ingot::backend::cuda
