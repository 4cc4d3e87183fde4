#include "backend/cuda/run/cublaslt.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include "backend/cuda/run/libraries.h"

namespace ingot::backend::cuda {

namespace {

// Constants of cublasLt.h and library_types.h.
enum DataType : int { r_32f = 0, r_64f = 1, r_16f = 2, r_16bf = 14 };
enum ComputeType : int { compute_32f = 68, compute_64f = 70, compute_32f_by_tf32 = 77 };
enum DescriptionAttribute : int { transpose_a = 3, transpose_b = 4, epilogue = 7, bias_pointer = 8 };
enum LayoutAttribute : int { batch_count = 5, batch_offset = 6 };
enum PreferenceAttribute : int { max_workspace = 1, alignment_a = 5, alignment_b = 6, alignment_c = 7, alignment_d = 8 };
enum Epilogue : int { plain = 1, with_relu = 2, with_bias = 4, with_gelu = 32 };

// A result of the library's heuristic.
struct Found {
  uint64_t algorithm[8];
  size_t workspace;
  int status;
  float waves;
  int reserved[4];
};
static_assert(sizeof(Found) == 96);

struct Library {
  const char* (*status_text)(int);
  size_t (*version)();
#define X(name, symbol, arguments) int(*name) arguments;
#include "backend/cuda/run/cublaslt.def"
};

const Library& library() {
  static const Library l = [] {
    SharedLibrary found(cublaslt_library);
    Library t{};
    found.find(t.status_text, "cublasLtGetStatusString");
    found.find(t.version, "cublasLtGetVersion");
#define X(name, symbol, arguments) found.find(t.name, #symbol);
#include "backend/cuda/run/cublaslt.def"
#include "backend/cuda/run/tuning.h"
    return t;
  }();
  return l;
}

void check(int status, const char* what) {
  enum Status : int { no_memory = 3 };  // of cublasLt.h
  if (status == 0) return;
  fail(status == no_memory ? Code::out_of_memory : Code::device, "cuBLASLt's {} failed: {}", what, library().status_text(status));
}

int data_type(int32_t type) {
  switch (static_cast<ir::DType>(type)) {
    case ir::DType::f32: return r_32f;
    case ir::DType::f64: return r_64f;
    case ir::DType::f16: return r_16f;
    case ir::DType::bf16: return r_16bf;
    default: fail(Code::format, "a product of {} is not one for cuBLASLt", ir::name_of(static_cast<ir::DType>(type)));
  }
}

constexpr std::string_view offer_word = "cublaslt ";

// The rank in "cublaslt 3"; nullopt for other choices.
std::optional<size_t> rank_of(std::string_view choice) {
  size_t rank = 0;
  if (!choice.starts_with(offer_word)) return std::nullopt;
  const char *from = choice.data() + offer_word.size(), *end = choice.data() + choice.size();
  auto [read, error] = std::from_chars(from, end, rank);
  return error == std::errc() && read == end && rank < gpu_tuning::timed_algorithms ? std::optional(rank) : std::nullopt;
}

}  // namespace

std::string Problem::text() const {
  auto matrix = [](const Matrix& m) { return fmt::format("{}x{}{} by {} and {}", m.rows, m.columns, m.transposed ? " transposed" : "", m.leading, m.batch); };
  auto type = [](int32_t t) { return ir::name_of(static_cast<ir::DType>(t)); };
  return fmt::format("product of {} to {}: a {}, b {}, c {}, d {}, batches {}, alignment {}, activation {}, bias {}, residual {}, tf32 {}{}", type(in), type(out), matrix(a),
                     matrix(b), matrix(c), matrix(d), batches, alignment, activation, bias, residual, tf32,
                     workspace == gpu_tuning::workspace_bytes ? "" : fmt::format(", workspace {}", workspace));
}

void need_cublaslt() { library(); }

Products::Products(DevicePtr device, std::span<const Timing> timings)
    : device_(std::move(device)), machine_(fmt::format("{}, cuBLASLt {}", device_->properties().name, library().version())) {
  for (const Timing& t : timings) {
    std::optional<size_t> rank = t.machine == machine_ ? rank_of(t.choice) : std::nullopt;
    if (rank) ranks_[t.problem] = *rank;
  }
  Device::Use use(*device_);
  check(library().create(&handle_), "start");
}

Products::~Products() {
  Device::Use use(*device_);
  library().destroy(handle_);
}

std::vector<Algorithm> Products::ask(const Problem& p, const Product& product, size_t max_count) const {
  const Library& l = library();
  struct Preference {
    void* handle = nullptr;
    ~Preference() {
      if (handle != nullptr) library().preference_destroy(handle);
    }
  } preference;
  check(l.preference_create(&preference.handle), "cublasLtMatmulPreferenceCreate");
  const auto workspace = static_cast<size_t>(p.workspace);
  check(l.preference_set(preference.handle, max_workspace, &workspace, sizeof workspace), "preference");
  auto alignment = static_cast<uint32_t>(p.alignment);
  for (int which : {alignment_a, alignment_b, alignment_c, alignment_d}) check(l.preference_set(preference.handle, which, &alignment, sizeof alignment), "preference");
  std::vector<Found> found(max_count);
  int count = 0;
  int status = l.heuristic(handle_, product.description_, product.a_, product.b_, product.c_, product.d_, preference.handle, static_cast<int>(max_count), found.data(), &count);
  if (status != 0 || count <= 0 || found[0].status != 0) {
    fail(Code::unsupported, "cuBLASLt has no algorithm for a product {} x {} x {} of {} ({} of them)", p.d.rows, p.d.columns, p.a.columns,
         ir::name_of(static_cast<ir::DType>(p.in)), p.batches);
  }
  std::vector<Algorithm> out;
  for (size_t i = 0; i < std::min(max_count, static_cast<size_t>(count)) && found[i].status == 0; ++i) {
    std::memcpy(out.emplace_back().bytes, found[i].algorithm, sizeof found[i].algorithm);
    out.back().workspace = found[i].workspace;
  }
  return out;
}

Tunable Products::tunable(const Problem& p, const Product& product) const {
  Tunable out{machine_, p.text(), {}};
  const size_t count = ask(p, product, gpu_tuning::timed_algorithms).size();
  for (size_t rank = 0; rank < count; ++rank) out.choices.push_back(fmt::format("{}{}", offer_word, rank));
  return out;
}

Algorithm Products::choose(const Problem& p, const Product& product, const Timing* trial) const {
  if (trial != nullptr && trial->machine == machine_ && trial->problem == p.text()) {
    const std::vector<Algorithm> list = ask(p, product, gpu_tuning::timed_algorithms);
    const std::optional<size_t> rank = rank_of(trial->choice);
    return list[rank && *rank < list.size() ? *rank : 0];
  }
  std::lock_guard lock(mutex_);
  if (auto found = known_.find(p); found != known_.end()) return found->second;
  auto timed = ranks_.empty() ? ranks_.end() : ranks_.find(p.text());
  std::vector<Algorithm> list = ask(p, product, timed == ranks_.end() ? 1 : gpu_tuning::timed_algorithms);
  const Algorithm& fastest = list[timed != ranks_.end() && timed->second < list.size() ? timed->second : 0];
  if (known_.size() >= gpu_tuning::max_known_problems) known_.clear();
  known_[p] = fastest;
  return fastest;
}

Product::Product(const Products& products, const Problem& p, const Timing* trial) : products_(products), wide_(static_cast<ir::DType>(p.in) == ir::DType::f64) {
  const Library& l = library();
  Device::Use use(*products.device());
  auto set = [&](int attribute, const auto& value) { check(l.description_set(description_, attribute, &value, sizeof value), "description"); };
  auto layout = [&](void** out, const Problem::Matrix& m, int32_t type) {
    auto rows = static_cast<uint64_t>(m.transposed ? m.columns : m.rows), columns = static_cast<uint64_t>(m.transposed ? m.rows : m.columns);
    check(l.layout_create(out, data_type(type), rows, columns, m.leading), "cublasLtMatrixLayoutCreate");
    auto batches = static_cast<int32_t>(p.batches);
    check(l.layout_set(*out, batch_count, &batches, sizeof batches), "layout");
    check(l.layout_set(*out, batch_offset, &m.batch, sizeof m.batch), "layout");
  };
  check(l.description_create(&description_, wide_ ? compute_64f : p.tf32 ? compute_32f_by_tf32 : compute_32f, wide_ ? r_64f : r_32f), "cublasLtMatmulDescCreate");
  set(transpose_a, static_cast<int32_t>(p.a.transposed));
  set(transpose_b, static_cast<int32_t>(p.b.transposed));
  int kind = p.activation == Problem::relu ? with_relu : p.activation == Problem::gelu_tanh ? with_gelu : 0;
  kind |= p.bias ? with_bias : 0;
  set(epilogue, static_cast<int32_t>(kind == 0 ? plain : kind));
  // The library takes the alignment of the bias from its pointer.
  if (p.bias) set(bias_pointer, static_cast<uint64_t>(p.alignment));
  layout(&a_, p.a, p.in);
  layout(&b_, p.b, p.in);
  layout(&c_, p.residual ? p.c : p.d, p.out);
  layout(&d_, p.d, p.out);
  algorithm_ = products.choose(p, *this, trial);
}

Product::~Product() {
  const Library& l = library();
  for (void* layout : {a_, b_, c_, d_}) {
    if (layout != nullptr) l.layout_destroy(layout);
  }
  if (description_ != nullptr) l.description_destroy(description_);
}

void Product::run(double alpha, double beta, Address a, Address b, Address c, Address d, Address bias, Address workspace, StreamHandle stream) {
  const Library& l = library();
  Device::Use use(*products_.device());
  if (bias != 0) check(l.description_set(description_, bias_pointer, &bias, sizeof bias), "description");
  const float alpha_f = static_cast<float>(alpha), beta_f = static_cast<float>(beta);
  auto pointer = [](Address x) { return reinterpret_cast<void*>(x); };
  check(l.matmul(products_.handle_, description_, wide_ ? static_cast<const void*>(&alpha) : &alpha_f, pointer(a), a_, pointer(b), b_,
                 wide_ ? static_cast<const void*>(&beta) : &beta_f, pointer(c), c_, pointer(d), d_, algorithm_.bytes, pointer(workspace), algorithm_.workspace, stream),
        "product");
}

}  // namespace ingot::backend::cuda
