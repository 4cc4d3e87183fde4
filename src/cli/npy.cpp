#include "npy.h"

#include <charconv>
#include <cstring>
#include <stdexcept>

#include "command.h"

namespace ingot::cli {

namespace {

struct Kind {
  ingot_dtype dtype;
  const char* name;
  const char* code;  // NumPy's code
  size_t size;
};
constexpr Kind kinds[] = {
    {INGOT_BOOL, "bool", "|b1", 1},       {INGOT_UINT8, "uint8", "|u1", 1},     {INGOT_INT8, "int8", "|i1", 1},       {INGOT_INT16, "int16", "<i2", 2},
    {INGOT_INT32, "int32", "<i4", 4},     {INGOT_INT64, "int64", "<i8", 8},     {INGOT_FLOAT16, "float16", "<f2", 2}, {INGOT_BFLOAT16, "bfloat16", "<u2", 2},
    {INGOT_FLOAT32, "float32", "<f4", 4}, {INGOT_FLOAT64, "float64", "<f8", 8},
};
const Kind& kind_of(ingot_dtype t) {
  for (const Kind& k : kinds) {
    if (k.dtype == t) return k;
  }
  throw std::runtime_error("unknown dtype");
}

}  // namespace

size_t dtype_size(ingot_dtype t) { return kind_of(t).size; }
const char* dtype_name(ingot_dtype t) { return kind_of(t).name; }

HostArray HostArray::empty(ingot_dtype dtype, std::vector<int64_t> dims) {
  HostArray a{dtype, std::move(dims), {}};
  size_t n = dtype_size(dtype);
  for (int64_t d : a.dims) n *= static_cast<size_t>(d);
  a.bytes.resize(n);
  return a;
}

HostArray read_npy(const std::string& path, ingot_dtype wanted) {
  const auto file = read_file(path);
  const std::string_view all(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  auto bad = [&](const char* what, const std::string& remedy = "write it with numpy.save") {
    return Failure{10 + INGOT_FORMAT, path + " is not a .npy file that can be read: " + what + "\n  remedy: " + remedy};
  };
  if (all.size() < 12 || all.compare(0, 6, "\x93NUMPY") != 0) throw bad("it does not start as one");
  size_t head = all[6] == 1 ? 10 : 12, length = static_cast<unsigned char>(all[8]) + 256u * static_cast<unsigned char>(all[9]);
  if (all[6] != 1) length += 65536u * static_cast<unsigned char>(all[10]);
  if (head + length > all.size()) throw bad("its header is cut off");
  const std::string header(all.substr(head, length));
  size_t at = header.find("'descr':"), order = header.find("'fortran_order':"), shape = header.find("'shape':");
  if (at == std::string::npos || order == std::string::npos || shape == std::string::npos) throw bad("its header lacks a field");
  if (header.find("True", order) < header.find(',', order)) throw bad("it is in Fortran order", "write numpy.ascontiguousarray(x) with numpy.save");
  size_t q0 = header.find('\'', at + 8), q1 = header.find('\'', q0 + 1);
  if (q1 == std::string::npos) throw bad("its dtype is missing");
  std::string code = header.substr(q0 + 1, q1 - q0 - 1);
  const Kind* found = nullptr;
  for (const Kind& k : kinds) {
    if (code.size() == 3 && code.substr(1) == k.code + 1) found = &k;
  }
  if (found != nullptr && found->size > 1 && code[0] == '>') throw bad("it is big-endian", "write x.astype(x.dtype.newbyteorder(\"<\")) with numpy.save");
  // uint16 is also what numpy has for the bits of a bfloat16.
  if (code == "<u4" || code == "<u8" || (code == "<u2" && wanted == INGOT_INT16))
    throw bad("its integers are unsigned", "write x.view(\"i" + code.substr(2) + "\") with numpy.save: plans hold the bits as signed integers");
  if (found == nullptr) throw bad("its dtype is not supported");
  std::vector<int64_t> dims;
  size_t p = header.find('(', shape), close = header.find(')', shape);
  if (p == std::string::npos || close == std::string::npos) throw bad("its shape is missing");
  int64_t count = 1;
  for (++p; p < close;) {
    while (p < close && (header[p] == ' ' || header[p] == ',')) ++p;
    if (p >= close) break;
    int64_t size = 0;
    if (std::from_chars(header.data() + p, header.data() + close, size).ec != std::errc() || size < 0) throw bad("its shape is not made of sizes");
    dims.push_back(size);
    if (__builtin_mul_overflow(count, size, &count) || count > INT64_MAX / 8) throw bad("its data is cut off");
    while (p < close && header[p] != ',') ++p;
  }
  size_t bytes = static_cast<size_t>(count) * found->size;
  if (all.size() - head - length < bytes) throw bad("its data is cut off");
  HostArray a{found->dtype, std::move(dims), std::vector<std::byte>(bytes)};
  if (bytes > 0) std::memcpy(a.bytes.data(), all.data() + head + length, bytes);
  return a;
}

void write_npy(const std::string& path, const HostArray& a) {
  std::string header = std::string("{'descr': '") + kind_of(a.dtype).code + "', 'fortran_order': False, 'shape': (";
  for (size_t i = 0; i < a.dims.size(); ++i) header += std::to_string(a.dims[i]) + (a.dims.size() == 1 ? "," : i + 1 < a.dims.size() ? ", " : "");
  header += "), }";
  header += std::string(63 - (10 + header.size()) % 64, ' ') + "\n";
  std::string start("\x93NUMPY\x01\x00", 8);
  start += static_cast<char>(header.size() & 255);
  start += static_cast<char>(header.size() >> 8);
  start += header;
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(start.data(), start.size())), a.bytes};
  write_file(path, parts);
}

}  // namespace ingot::cli
