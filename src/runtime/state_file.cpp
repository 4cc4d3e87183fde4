#include "runtime/state_file.h"

#include <cstring>
#include <vector>

#include <fmt/ranges.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "base/text.h"
#include "runtime/strided.h"

namespace ingot::runtime {

namespace {

// The dtype's name in safetensors.
const char* file_name_of(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::b8: return "BOOL";
    case ir::DType::u8: return "U8";
    case ir::DType::i8: return "I8";
    case ir::DType::i16: return "I16";
    case ir::DType::i32: return "I32";
    case ir::DType::i64: return "I64";
    case ir::DType::f16: return "F16";
    case ir::DType::bf16: return "BF16";
    case ir::DType::f32: return "F32";
    case ir::DType::f64: return "F64";
    case ir::DType::c32:
    case ir::DType::c64:
    case ir::DType::c128:
    case ir::DType::u16:
    case ir::DType::u32:
    case ir::DType::u64: break;
  }
  fail(Code::internal, "a state of type {}", static_cast<int>(dtype));
}

// The header: the length of the JSON text in 8 bytes, then the text, padded to a multiple of 8. `values` receives the bytes of all values.
std::string header_of(const State& state, size_t& values) {
  std::string text = "{";
  values = 0;
  for (size_t i = 0; i < state.size(); ++i) {
    const plan::Weight& w = state.what(i);
    if (i > 0) text += ",";
    append_json_string(text, w.name);
    text += fmt::format(":{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", file_name_of(w.dtype), fmt::join(w.dims, ","), values, values + w.bytes);
    values += w.bytes;
  }
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  std::string out(sizeof length, '\0');
  std::memcpy(out.data(), &length, sizeof length);
  return out + text;
}

std::string entries_of(const State& state) {
  std::string out;
  for (size_t i = 0; i < state.size(); ++i) {
    const plan::Weight& w = state.what(i);
    out += fmt::format("{}{} ({} {})", i > 0 ? ", " : "", w.name, ir::torch_name_of(w.dtype), shape_text(value_of(w, nullptr, nullptr)));
  }
  return out.empty() ? "none" : out;
}

}  // namespace

void save(State& state, const std::string& path) {
  size_t bytes = 0;
  const std::string header = header_of(state, bytes);
  std::vector<std::byte> values(bytes);
  state.copy_all(values.data(), true);
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(header)), values};
  write_atomically(path, parts);
}

void load(State& state, const std::string& path) {
  size_t values = 0;
  const std::string header = header_of(state, values);
  const auto file = MappedFile::open(path, MappedFile::Access::whole);
  const std::span<const std::byte> bytes = file->bytes();
  if (bytes.size() < header.size() || std::memcmp(bytes.data(), header.data(), header.size()) != 0) {
    throw Error(Code::format, fmt::format("{} is not a saved state with the entries of this one", path))
        .fix("load it into a state of the plan that it was saved from; the entries here are " + entries_of(state));
  }
  if (bytes.size() != header.size() + values) {
    throw Error(Code::format, fmt::format("{} has {} bytes of values, and a state like this one has {}", path, bytes.size() - header.size(), values))
        .fix("save the state again: the file is damaged");
  }
  state.copy_all(const_cast<std::byte*>(bytes.data() + header.size()), false);  // only read
}

}  // namespace ingot::runtime
