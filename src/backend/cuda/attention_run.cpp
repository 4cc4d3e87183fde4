// "attention" on CUDA: blocks of queries, as many a block as fill the GPU.
#include <algorithm>
#include <cstring>

#include "backend/cuda/backend_run.h"
#include "base/error.h"
#include "kernels/attention/attention_cuda_args.h"

namespace ingot::kernels {

namespace {

using namespace backend::cuda;
using backend::TensorRef;
using Args = AttentionCudaArgs;

// For one set of sizes, of one session.
struct Prepared {
  struct Launch {
    Function function;
    LaunchShape shape;
  };
  Launch aligned, any;
  bool may_be_aligned = false;
  std::vector<std::byte> parameters;
};

std::shared_ptr<const void> load(std::span<const std::byte> constants, size_t operands, size_t sizes) {
  auto args = std::make_shared<Args>(parse_attention_cuda(constants));
  if (args->operands.size() != operands || args->sizes != sizes) {
    fail(Code::format, "an attention step has {} operands and {} sizes, its arguments {} and {}", operands, sizes, args->operands.size(), args->sizes);
  }
  return args;
}

void check(const Args& args, const backend::Call& call) {
  auto require = [](bool good, const char* what) {
    if (!good) fail(Code::format, "the operands of an attention step do not fit: {}", what);
  };
  int batch = args.batch_rank;
  int64_t s = call.sizes[0], t = call.sizes[1], d = call.sizes[2], e = call.sizes[3];
  require(d == args.depth && e == args.width, "heads");
  const TensorRef& out = call.operands.back();
  for (size_t k = 0; k < call.operands.size(); ++k) {
    const TensorRef& x = call.operands[k];
    require(x.dtype == args.operands[k].dtype && x.rank == batch + 2 + args.operands[k].gathered, "types and ranks");
    bool load = k >= 3 && k + 1 < call.operands.size();
    int64_t rows = k == 0 || load || k + 1 == call.operands.size() ? s : t, columns = k < 2 ? d : load ? t : e;
    for (int axis = 0; axis < batch + 2; ++axis) {
      int64_t wanted = axis < batch ? out.dims[axis] : axis == batch ? rows : columns;
      require(x.dims[axis] == wanted || (load && x.dims[axis] == 1), "sizes");
    }
    require(load || x.strides[x.rank - 1] == 1, "strides");
  }
}

backend::Resolved resolve(const backend::Call& call) {
  const auto& args = *static_cast<const Args*>(call.constants);
  const auto& gpu = static_cast<const Gpu&>(*call.backend);
  check(args, call);
  auto value = [&](const Args::Number& n) -> int64_t {
    if (n.kind == Args::Number::size) return call.sizes[n.a];
    const TensorRef& x = call.operands[n.a];
    if (n.kind == Args::Number::dim) return x.dims[n.b];
    return x.dims[n.b] == 1 ? 0 : x.strides[n.b];
  };
  for (const Args::Known& k : args.known) {
    // A stride that nobody steps by may be anything.
    bool idle = k.number.kind == Args::Number::stride && call.operands[k.number.a].dims[k.number.b] <= 1;
    if (!idle && value(k.number) != k.value) fail(Code::format, "an attention step was compiled for {} and gets {}", k.value, value(k.number));
  }
  auto out = std::make_shared<Prepared>();
  const TensorRef& result = call.operands.back();
  int64_t batches = 1, queries = call.sizes[0];
  for (int axis = 0; axis < args.batch_rank; ++axis) batches *= result.dims[axis];
  out->may_be_aligned = true;
  for (size_t k : {size_t{0}, size_t{1}, size_t{2}, call.operands.size() - 1}) {
    const TensorRef& x = call.operands[k];
    for (int axis = 0; axis + 1 < x.rank; ++axis) out->may_be_aligned = out->may_be_aligned && (x.dims[axis] == 1 || x.strides[axis] % 8 == 0);
  }
  if (batches * queries > 0) {
    auto launch = [&](int variant) {
      uint32_t rows = Args::warps[variant] * Args::queries_of_warp;
      int64_t blocks = batches * ((queries + rows - 1) / rows);
      if (blocks > INT32_MAX) fail(Code::unsupported, "attention over {} heads and sequences of {} is too large for its kernels", batches, queries);
      uint32_t shared = 2 * (rows * (args.depth + 8u) + 2 * Args::keys_at_once * (args.depth + 8u + args.width + 8u));
      return Prepared::Launch{gpu.function(fmt::format("{}_{}", args.name, variant)), {static_cast<uint32_t>(blocks), Args::warps[variant] * 32, shared}};
    };
    // Few queries a block while many would leave multiprocessors with less than two.
    int64_t many = batches * ((queries + 63) / 64);
    out->aligned = launch(many < 2 * gpu.device()->properties().multiprocessors ? 0 : 1);
    out->any = launch(Args::any_address);
  }
  out->parameters.resize(8 * (1 + call.operands.size() + std::max<size_t>(1, args.numbers.size())));
  for (size_t k = 0; k < args.numbers.size(); ++k) {
    int64_t v = value(args.numbers[k]);
    std::memcpy(out->parameters.data() + 8 * (1 + call.operands.size() + k), &v, 8);
  }
  return {0, out};
}

void run(const backend::Call& call) {
  auto& prepared = *static_cast<Prepared*>(const_cast<void*>(call.prepared));  // of this session alone
  if (!prepared.any.function) return;
  auto& lane = static_cast<GpuLane&>(*call.lane);
  Address status = lane.status();
  std::memcpy(prepared.parameters.data(), &status, 8);
  bool aligned = prepared.may_be_aligned;
  for (size_t k = 0; k < call.operands.size(); ++k) {
    auto address = reinterpret_cast<Address>(call.operands[k].data);
    if (k < 3 || k + 1 == call.operands.size()) aligned = aligned && address % 16 == 0;
    std::memcpy(prepared.parameters.data() + 8 * (1 + k), &address, 8);
  }
  const Prepared::Launch& launch = aligned ? prepared.aligned : prepared.any;
  launch.function.launch(launch.shape, prepared.parameters, lane.stream());
}

}  // namespace

extern const backend::RunKernel attention_cuda_kernel;
const backend::RunKernel attention_cuda_kernel = {"attention", load, resolve, run};

}  // namespace ingot::kernels
