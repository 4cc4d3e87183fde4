// Replaces a plan's weights: `ingot refit`.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <filesystem>
#include <map>
#include <unordered_map>
#include <utility>

#include <fmt/ranges.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/text.h"
#include "capture/adapter.h"
#include "capture/safetensors.h"
#include "ir/half.h"
#include "pipeline.h"
#include "runtime/strided.h"

namespace ingot {

namespace {

using capture::NamedTensor;

std::string type_text(std::string_view dtype, const std::vector<int64_t>& dims) { return fmt::format("{} [{}]", dtype, fmt::join(dims, ", ")); }
std::string type_text(const plan::Weight& w) { return type_text(ir::torch_name_of(w.dtype), w.dims); }
std::string type_text(const NamedTensor& t) { return type_text(t.dtype ? ir::torch_name_of(*t.dtype) : std::string_view(t.type), t.dims); }

// The plan's weights by all of their names.
class Names {
 public:
  explicit Names(const plan::Plan& plan) : others_(capture::other_names(plan.signature)) {
    for (size_t i = 0; i < plan.weights.size(); ++i) {
      number_.emplace(plan.weights[i].name, i);
      if (!plan.weights[i].tied_to.empty()) number_.emplace(plan.weights[i].tied_to, i);
    }
    for (const auto& [other, name] : others_.tied) {
      if (auto found = number_.find(name); found != number_.end()) number_.emplace(other, found->second);
    }
  }

  std::optional<size_t> find(const std::string& name) const {
    auto found = number_.find(name);
    return found == number_.end() ? std::nullopt : std::optional(found->second);
  }
  bool is_unused(const std::string& name) const { return std::find(others_.unused.begin(), others_.unused.end(), name) != others_.unused.end(); }

  // Including names that the plan does not use.
  std::vector<std::string> all() const {
    std::vector<std::string> out = others_.unused;
    for (const auto& [name, number] : number_) out.push_back(name);
    std::sort(out.begin(), out.end());
    return out;
  }
  std::string nearest_to(std::string_view name) const {
    std::vector<std::string_view> names;
    for (const auto& [other, number] : number_) names.push_back(other);
    std::sort(names.begin(), names.end());
    return std::string(nearest(name, names));
  }

 private:
  capture::OtherNames others_;
  std::unordered_map<std::string, size_t> number_;
};

// Sets a weight's value from row-major bytes: in place if the plan reads this order, otherwise as a copy.
void take(plan::Weight& w, std::span<const std::byte> bytes, std::shared_ptr<const void> keep) {
  const runtime::HostTensor given = runtime::value_of(w, bytes.data(), nullptr);
  w.source = plan::Weight::Source::embedded;
  if (bytes.empty() || (runtime::is_dense_in(w.order, given) && reinterpret_cast<uintptr_t>(bytes.data()) % ir::size_of(w.dtype) == 0)) {
    w.data = bytes.data();
    w.keep = std::move(keep);
    return;
  }
  auto copy = std::make_shared<const MemoryBlock>(w.bytes, system_allocator());
  if (runtime::is_dense_in(w.order, given)) {
    std::memcpy(copy->data(), bytes.data(), bytes.size());
  } else {
    const MemoryBlock aligned(bytes.size(), system_allocator());
    std::memcpy(aligned.data(), bytes.data(), bytes.size());
    runtime::copy_strided(runtime::value_of(w, aligned.data(), nullptr), w.order, copy->data(), true);
  }
  w.data = copy->data();
  w.keep = std::move(copy);
}

// All problems of the given files, reported together.
struct Problems {
  std::vector<std::string> unknown, differing, missing;
  std::string near;

  void tell(bool stripped) const {
    std::string text;
    auto add = [&](const std::vector<std::string>& which, std::string_view what) {
      if (which.empty()) return;
      const size_t shown = std::min<size_t>(which.size(), 4);
      text += fmt::format("{}{} {}: {}{}", text.empty() ? "" : "; ", which.size(), what, fmt::join(which.begin(), which.begin() + static_cast<ptrdiff_t>(shown), ", "),
                          shown < which.size() ? ", ..." : "");
    };
    add(unknown, "have names that the plan has not");
    add(differing, "are not as the plan has them");
    add(missing, "of the plan's are missing");
    if (text.empty()) return;
    Error problem(Code::invalid_input, "the weights do not fit the plan: " + text);
    if (!near.empty()) throw problem.fix(fmt::format("the nearest name is \"{}\"", near));
    if (!unknown.empty() || !differing.empty()) throw problem.fix("give weights of the model that was compiled");
    throw problem.fix(stripped ? "the plan was saved without values, so every weight is needed" : "with --allow-missing these keep the values that the plan has");
  }
};

void take_files(plan::Plan& plan, const Names& names, const std::vector<std::string>& paths, bool allow_missing) {
  std::vector<std::string> from(plan.weights.size());
  Problems problems;
  for (const std::string& path : paths) {
    const capture::TensorFile file = capture::read_safetensors(path);
    for (const NamedTensor& t : file.tensors) {
      const std::optional<size_t> number = names.find(t.name);
      if (!number) {
        if (names.is_unused(t.name)) continue;
        problems.unknown.push_back(t.name);
        if (problems.near.empty()) problems.near = names.nearest_to(t.name);
        continue;
      }
      plan::Weight& w = plan.weights[*number];
      const std::string before = std::exchange(from[*number], t.name);
      if (t.dtype != w.dtype || t.dims != w.dims) {
        problems.differing.push_back(fmt::format("{} is {}, and {} there", t.name, type_text(t), type_text(w)));
      } else if (before.empty()) {
        take(w, t.bytes, file.file);
      } else if (before == t.name) {
        problems.differing.push_back(fmt::format("{} is given twice", t.name));
      } else if (w.source != plan::Weight::Source::host) {  // tied weights that were saved under both names
        plan::Weight other = w;
        take(other, t.bytes, file.file);
        if (std::memcmp(other.data, w.data, w.bytes) != 0) problems.differing.push_back(fmt::format("{} has other values than {}, with which it is one weight", t.name, before));
      }
    }
  }
  for (size_t i = 0; i < from.size(); ++i) {
    const bool has_value = plan.weights[i].source != plan::Weight::Source::host;
    if (from[i].empty() && !(has_value && (allow_missing || paths.empty()))) problems.missing.push_back(plan.weights[i].name);
  }
  const bool stripped = std::any_of(plan.weights.begin(), plan.weights.end(), [](const plan::Weight& w) { return w.source == plan::Weight::Source::host; });
  problems.tell(stripped);
}

// Converts a float type's bytes, which may be unaligned.
template <class T>
std::vector<T> numbers(std::span<const std::byte> bytes, ir::DType dtype) {
  std::vector<T> out(bytes.size() / ir::size_of(dtype));
  for (size_t i = 0; i < out.size(); ++i) {
    const std::byte* at = bytes.data() + i * ir::size_of(dtype);
    auto read = [&]<class S>(S value) {
      std::memcpy(&value, at, sizeof value);
      return value;
    };
    switch (dtype) {
      case ir::DType::f16: out[i] = static_cast<T>(ir::f16_to_float(read(uint16_t{}))); break;
      case ir::DType::bf16: out[i] = static_cast<T>(ir::bf16_to_float(read(uint16_t{}))); break;
      case ir::DType::f32: out[i] = static_cast<T>(read(float{})); break;
      default: out[i] = static_cast<T>(read(double{}));
    }
  }
  return out;
}

template <class T>
void write(std::byte* at, ir::DType dtype, const std::vector<T>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    auto put = [&](auto value) { std::memcpy(at + i * sizeof value, &value, sizeof value); };
    switch (dtype) {
      case ir::DType::f16: put(ir::float_to_f16(static_cast<float>(values[i]))); break;
      case ir::DType::bf16: put(ir::float_to_bf16(static_cast<float>(values[i]))); break;
      case ir::DType::f32: put(static_cast<float>(values[i])); break;
      default: put(static_cast<double>(values[i]));
    }
  }
}

// One weight's part of an adapter: up [rows, rank] and down [rank, columns] as matrices.
struct LowRank {
  const NamedTensor &down, &up;
  bool transposed;
  double scale;
  size_t rows = 0, columns = 0, rank = 0;
};

// sum += scale * up @ down, where sum is the weight as a matrix of its first axis and the rest.
template <class T>
void add_product(std::vector<T>& sum, const LowRank& low) {
  const std::vector<T> down = numbers<T>(low.down.bytes, *low.down.dtype), up = numbers<T>(low.up.bytes, *low.up.dtype);
  std::vector<T> line(low.columns);
  for (size_t r = 0; r < low.rows; ++r) {
    std::fill(line.begin(), line.end(), T(0));
    for (size_t k = 0; k < low.rank; ++k) {
      const T factor = up[r * low.rank + k];
      for (size_t c = 0; c < low.columns; ++c) line[c] += factor * down[k * low.columns + c];
    }
    for (size_t c = 0; c < low.columns; ++c) sum[low.transposed ? c * low.rows + r : r * low.columns + c] += static_cast<T>(low.scale) * line[c];
  }
}

// The weight plus all of its parts, rounded once.
template <class T>
void merge(plan::Weight& w, const std::vector<LowRank>& parts) {
  const MemoryBlock plain(w.bytes, system_allocator());
  const runtime::HostTensor shape = runtime::value_of(w, plain.data(), nullptr);
  if (runtime::is_dense_in(w.order, shape)) {
    std::memcpy(plain.data(), w.data, w.bytes);
  } else {
    runtime::copy_strided(shape, w.order, const_cast<std::byte*>(w.data), false);  // only read
  }
  std::vector<T> values = numbers<T>({plain.data(), w.bytes}, w.dtype);
  for (const LowRank& low : parts) add_product(values, low);
  auto made = std::make_shared<const MemoryBlock>(w.bytes, system_allocator());
  write(made->data(), w.dtype, values);
  take(w, {made->data(), w.bytes}, made);
}

size_t elements(const std::vector<int64_t>& dims, size_t from = 0) {
  size_t n = 1;
  for (size_t i = from; i < dims.size(); ++i) n *= static_cast<size_t>(dims[i]);
  return n;
}

std::string text_of_file(const std::string& path) {
  const auto file = MappedFile::open(path, MappedFile::Access::whole);
  return std::string(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
}

// The adapters' files, and their parts of each weight.
class Adapters {
 public:
  Adapters(const plan::Plan& plan, const Names& names) : plan_(plan), names_(names) {}

  void read(const AdapterFile& adapter) {
    std::error_code ignored;
    std::filesystem::path path = adapter.path;
    if (std::filesystem::is_directory(path, ignored)) path /= "adapter_model.safetensors";
    files_.push_back(capture::read_safetensors(path.string()));
    const std::vector<NamedTensor>& tensors = files_.back().tensors;
    const std::filesystem::path config_path = path.parent_path() / "adapter_config.json";
    const std::string config = std::filesystem::exists(config_path, ignored) ? text_of_file(config_path.string()) : files_.back().adapter_metadata;
    std::vector<std::string> tensor_names;
    for (const NamedTensor& t : tensors) tensor_names.push_back(t.name);
    for (const capture::AdapterPart& part : capture::adapter_parts(tensor_names, config, names_.all())) {
      const std::optional<size_t> number = names_.find(part.weight);
      if (number) parts_[*number].push_back(checked(plan_.weights[*number], part, tensors, adapter.scale));
    }
  }

  const std::map<size_t, std::vector<LowRank>>& parts() const { return parts_; }

 private:
  static LowRank checked(const plan::Weight& w, const capture::AdapterPart& part, const std::vector<NamedTensor>& tensors, double scale) {
    LowRank low{tensors[part.down], tensors[part.up], part.transposed, scale};
    auto bad = [&](std::string_view why) {
      throw Error(Code::invalid_input, fmt::format("the adapter's \"{}\" {} and \"{}\" {} {} weight \"{}\" {}", low.down.name, type_text(low.down), low.up.name, type_text(low.up),
                                                   why, w.name, type_text(w)))
          .fix("give an adapter of this model");
    };
    for (const NamedTensor* t : {&low.down, &low.up}) {
      if (!t->dtype || !ir::is_float(*t->dtype) || t->dims.empty()) bad("are not both matrices of floating-point numbers, for");
    }
    if (!ir::is_float(w.dtype) || w.dims.size() < 2) bad("cannot be added to");
    low.rank = static_cast<size_t>(low.down.dims[0]), low.rows = static_cast<size_t>(low.up.dims[0]), low.columns = elements(low.down.dims, 1);
    if (elements(low.up.dims, 1) != low.rank || low.rank == 0) bad("do not make a matrix for");
    const size_t first = static_cast<size_t>(w.dims[0]), rest = elements(w.dims, 1);
    if (low.transposed ? (low.rows != rest || low.columns != first) : (low.rows != first || low.columns != rest)) bad("do not have the shape of");
    double alpha = part.alpha.value_or(static_cast<double>(low.rank));
    if (part.alpha_tensor) {
      const NamedTensor& t = tensors[*part.alpha_tensor];
      if (!t.dtype || !ir::is_float(*t.dtype) || elements(t.dims) != 1)
        fail(Code::invalid_input, "the adapter's \"{}\" is {}, not one floating-point number", t.name, type_text(t));
      alpha = numbers<double>(t.bytes, *t.dtype)[0];
    }
    low.scale *= alpha / (part.by_root ? std::sqrt(static_cast<double>(low.rank)) : static_cast<double>(low.rank));
    if (!std::isfinite(low.scale)) fail(Code::invalid_input, "the adapter's \"{}\" is multiplied by {}, no finite number", low.down.name, low.scale);
    return low;
  }

  const plan::Plan& plan_;
  const Names& names_;
  std::deque<capture::TensorFile> files_;  // elements must not move
  std::map<size_t, std::vector<LowRank>> parts_;
};

}  // namespace

plan::Plan refit(const plan::Plan& plan, const std::vector<std::string>& weights, const std::vector<AdapterFile>& adapters, bool allow_missing) {
  plan::Plan made = plan;
  const Names names(made);
  take_files(made, names, weights, allow_missing);
  Adapters added(made, names);
  for (const AdapterFile& adapter : adapters) added.read(adapter);
  for (const auto& [number, parts] : added.parts()) {
    plan::Weight& w = made.weights[number];
    if (w.dtype == ir::DType::f64) {
      merge<double>(w, parts);
    } else {
      merge<float>(w, parts);
    }
  }
  made.values = plan::Values::embedded;
  made.hash = {};
  made.weights_hash.reset();
  made.signer.clear();
  return made;
}

}  // namespace ingot
