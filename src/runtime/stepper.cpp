#include "runtime/stepper.h"

#include <algorithm>

#include "base/error.h"
#include "runtime/weights.h"

namespace ingot::runtime {

using plan::Buffer;

Stepper::Stepper(std::shared_ptr<const plan::Plan> plan, std::string_view device, int threads)
    : plan_(std::move(plan)), placement_(place(*plan_, device)), workers_(make_workers({threads})), stream_(placement_.backend->new_stream()) {
  for (const plan::Weight& w : plan_->weights) {
    if (w.data == nullptr && w.bytes > 0) {
      throw Error(Code::invalid_input, fmt::format("weight \"{}\" has no data: the plan was saved without it", w.name)).fix("verify a plan that has the values of its weights");
    }
    memory_.weight_bytes.push_back(w.bytes);
    if (placement_.backend->memory() == nullptr) {
      memory_.weights.push_back(w.data);
      continue;
    }
    weights_.push_back(filled({w.data, w.bytes}, w.name));
    memory_.weights.push_back(weights_.back().data());
  }
  auto padded = [&](size_t bytes) { return padded_bytes(bytes, placement_.backend->alignment()); };
  size_t total = 0;
  for (const plan::Derived& d : plan_->targets[placement_.target].derived) total += padded(d.bytes);
  derived_ = block(total, "the prepared weights of the plan");
  std::byte* at = derived_.data();
  for (const plan::Derived& d : plan_->targets[placement_.target].derived) {
    memory_.derived.push_back(at);
    memory_.derived_bytes.push_back(d.bytes);
    at += padded(d.bytes);
  }
}

MemoryBlock Stepper::block(size_t bytes, std::string_view what) const {
  Allocator* own = placement_.backend->memory();
  return reserve(bytes + 64, own != nullptr ? *own : system_allocator(), what);
}

MemoryBlock Stepper::filled(std::span<const std::byte> bytes, std::string_view what) const {
  MemoryBlock made = block(bytes.size(), what);
  stream_->copy(made.data(), bytes.data(), bytes.size());
  stream_->wait();
  return made;
}

void Stepper::begin_prepare() {
  bindings_.clear();
  const plan::Function& prepare = plan_->targets[placement_.target].prepare;
  start(prepare, prepare.programs[0], {});
}

void Stepper::begin(size_t function, std::vector<int64_t> symbols, std::span<const std::vector<std::byte>> inputs) {
  const plan::Function& f = plan_->functions[function];
  std::vector<int64_t> sizes(f.sizes.code.size());
  evaluate(f.sizes, symbols, sizes);
  bindings_.clear();
  for (size_t b = 0; b < f.bindings.size(); ++b) {
    const plan::Binding& binding = f.bindings[b];
    auto bytes = static_cast<int64_t>(ir::size_of(binding.dtype));
    for (plan::SizeRef d : binding.dims) bytes *= sizes[d];
    switch (binding.kind) {
      case plan::Binding::Kind::input: bindings_.push_back(filled(inputs[b], binding.name)); break;
      case plan::Binding::Kind::output: bindings_.push_back(block(static_cast<size_t>(bytes), binding.name)); break;
      case plan::Binding::Kind::state: bindings_.push_back(filled({plan_->weights[binding.weight].data, plan_->weights[binding.weight].bytes}, binding.name)); break;
    }
  }
  start(f, f.programs[placement_.target], std::move(symbols));
}

void Stepper::start(const plan::Function& f, const plan::Program& p, std::vector<int64_t> symbols) {
  loaded_ = load_function(*plan_, f, p, *placement_.backend);
  resolved_ = resolve(loaded_, *plan_, memory_, std::move(symbols), *workers_);
  arena_ = block(resolved_->arena_bytes, "the memory between the steps");
  scratch_ = block(resolved_->scratch_bytes, "the scratch memory of the steps");
  std::vector<std::byte*> pointers;
  for (MemoryBlock& b : bindings_) pointers.push_back(b.data());
  point(*resolved_, pointers, {arena_.data(), scratch_.data()});
  places_.assign(p.buffers.size(), {});
  for (size_t n = 0; n < p.steps.size(); ++n) {
    for (size_t k = 0; k < p.steps[n].operands.size(); ++k) {
      const plan::OperandView& o = p.steps[n].operands[k];
      const backend::TensorRef& t = resolved_->steps[n].operands[k];
      if (kernels::numel(t) == 0) continue;
      const Buffer& b = p.buffers[o.buffer];
      size_t bytes = 0;
      switch (b.kind) {
        case Buffer::Kind::arena: bytes = static_cast<size_t>(resolved_->sizes[b.bytes]); break;
        case Buffer::Kind::weight: bytes = memory_.weight_bytes[b.index]; break;
        case Buffer::Kind::derived: bytes = memory_.derived_bytes[b.index]; break;
        case Buffer::Kind::binding: {
          bytes = ir::size_of(f.bindings[b.index].dtype);
          for (int64_t d : resolved_->binding_dims[b.index]) bytes *= static_cast<size_t>(d);
          break;
        }
      }
      places_[o.buffer] = {t.data - resolved_->sizes[o.offset] * static_cast<int64_t>(ir::size_of(t.dtype)), bytes};
    }
  }
}

void Stepper::run(size_t step) {
  run_step(loaded_, *resolved_, step, scratch_.data(), *workers_, *stream_);
  stream_->wait();
}

std::vector<std::byte> Stepper::read_binding(size_t binding, size_t bytes) const {
  std::vector<std::byte> out(bytes);
  if (bytes == 0) return out;
  stream_->copy(out.data(), bindings_[binding].data(), bytes);
  stream_->wait();
  return out;
}

std::vector<std::byte> Stepper::read(plan::BufferId buffer) const {
  const Place& place = places_[buffer];
  std::vector<std::byte> out(place.bytes);
  if (place.bytes == 0) return out;
  stream_->copy(out.data(), place.data, place.bytes);
  stream_->wait();
  return out;
}

}  // namespace ingot::runtime
