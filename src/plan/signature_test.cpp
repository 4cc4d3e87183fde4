// Signed plan files: what one of the keys has signed is read, anything else is refused before it is parsed.
#include "plan/signature.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/mapped_file.h"
#include "plan/file.h"
#include "plan/plan.h"

namespace ingot::plan {
namespace {

struct SignedPlan : testing::Test {
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "ingot-XXXXXX").string();
    folder = ::mkdtemp(name.data());
    try {
      key = make_keys(folder / "me");
    } catch (const Error& e) {
      if (e.code == Code::device) GTEST_SKIP() << e.message;
      throw;
    }
    Plan p;
    Function f;
    f.name = "forward";
    f.programs.resize(1);
    p.functions = {f};
    Function prepare;
    prepare.programs.resize(1);
    Target gpu;
    gpu.kind = Target::Kind::cuda;
    gpu.architecture = 90;
    p.targets = {{gpu, prepare, {}, {{DeviceCode::Form::machine, 90, {"one"}, {std::byte{7}}}}}};
    static const float numbers[] = {1, 2, 3};
    p.weights = {{"w", DType::f32, {3}, {}, "", Weight::Source::embedded, reinterpret_cast<const std::byte*>(numbers), sizeof numbers, nullptr}};
    p.code_from = CodeFrom::elsewhere;
    write_file(p, folder / "plain.ingot");
    sign_file(folder / "plain.ingot", folder / "me.key", folder / "signed.ingot");
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::vector<std::byte> bytes(const char* name) const {
    auto file = MappedFile::open(folder / name, MappedFile::Access::whole);
    return {file->bytes().begin(), file->bytes().end()};
  }
  // The error of reading these bytes as signed by `keys`; "" if there is none.
  static std::string refused(std::span<const std::byte> bytes, const std::vector<std::string>& keys) {
    try {
      read_signed(bytes, nullptr, keys);
      return "";
    } catch (const Error& e) {
      EXPECT_TRUE(e.code == Code::format || e.code == Code::version) << e.message;
      EXPECT_FALSE(e.remedy.empty()) << e.message;
      return e.message;
    }
  }

  std::filesystem::path folder;
  std::string key;
};

TEST_F(SignedPlan, IsTrustedAsCode) {
  auto plan = read_signed_file(folder / "signed.ingot", std::vector{key});
  EXPECT_EQ(plan->code_from, CodeFrom::trusted);
  EXPECT_TRUE(plan->runs_external);
  EXPECT_EQ(plan->signer, key);
  EXPECT_EQ(plan->hash, read_file(folder / "plain.ingot")->hash);  // the content is the same
  auto other = read_file(folder / "signed.ingot");  // as any file
  EXPECT_EQ(other->code_from, CodeFrom::elsewhere);
  EXPECT_FALSE(other->runs_external);
  EXPECT_EQ(write(*plan), bytes("plain.ingot"));  // written again it is unsigned
}

TEST_F(SignedPlan, EveryChangedByteIsSeen) {
  const std::vector<std::byte> good = bytes("signed.ingot");
  ASSERT_EQ(refused(good, {key}), "");
  for (size_t at = 0; at < good.size(); ++at) {
    std::vector<std::byte> bad = good;
    bad[at] ^= std::byte{1};
    ASSERT_NE(refused(bad, {key}), "") << "byte " << at;
  }
}

// An attacker makes the checksums fit.
TEST_F(SignedPlan, ChecksumsThatFitDoNotHelp) {
  std::vector<std::byte> bad = bytes("signed.ingot");
  Header h;
  std::memcpy(&h, bad.data(), sizeof h);
  std::byte& number = bad[h.weights_offset() + 2];
  number ^= std::byte{1};
  h.weights_hash = hash128(std::span(bad).subspan(h.weights_offset(), h.weights_bytes));
  h.header_hash = header_hash(h);
  std::memcpy(bad.data(), &h, sizeof h);
  EXPECT_NO_THROW(read(bad, nullptr, Trust::data));
  EXPECT_EQ(refused(bad, {key}), "the plan is not what " + key + " signed: it was changed later, or its signature is forged");
}

TEST_F(SignedPlan, CutOffItIsRefused) {
  const std::vector<std::byte> good = bytes("signed.ingot");
  for (size_t less = 1; less <= good.size(); less += less < 200 ? 1 : 37) EXPECT_NE(refused(std::span(good).first(good.size() - less), {key}), "") << less;
  // Without its signature, with a header that says so.
  std::vector<std::byte> bad(good.begin(), good.end() - sizeof(Signature));
  Header h;
  std::memcpy(&h, bad.data(), sizeof h);
  h.signature_bytes = 0;
  h.header_hash = header_hash(h);
  std::memcpy(bad.data(), &h, sizeof h);
  EXPECT_EQ(bad, bytes("plain.ingot"));
  EXPECT_EQ(refused(bad, {key}), "the plan is not signed");
}

TEST_F(SignedPlan, OnlyKeysThatAreTrustedCount) {
  const std::string other = make_keys(folder / "other");
  const std::vector<std::byte> good = bytes("signed.ingot");
  EXPECT_EQ(refused(good, {other}), "the plan is signed by " + key + ", which is none of the keys that are trusted");
  EXPECT_EQ(refused(good, {other, key}), "");
  std::ofstream(folder / "keys") << "# ours\n\n" << other << "\n" << key << "\n";
  EXPECT_EQ(refused(good, {(folder / "keys").string()}), "");
  // A signature under another's name.
  sign_file(folder / "signed.ingot", folder / "other.key", folder / "signed.ingot");  // replaces the signature
  const std::vector<std::byte> again = bytes("signed.ingot");
  EXPECT_EQ(again.size(), good.size());
  EXPECT_EQ(refused(again, {other}), "");
  std::vector<std::byte> bad = good;
  std::copy_n(again.end() - 64, 64, bad.end() - 64);
  EXPECT_EQ(refused(bad, {key}), "the plan is not what " + key + " signed: it was changed later, or its signature is forged");
}

TEST_F(SignedPlan, TextsThatAreNoKeysAreRefused) {
  std::ofstream(folder / "bad") << key << "\nhello\n";
  std::ofstream(folder / "empty") << "# none\n";
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{}, "no public key is given, so no signature can be trusted"},
      {{(folder / "empty").string()}, "no public key is given, so no signature can be trusted"},
      {{"ed25519:12"}, "this is not a public key: \"ed25519:12\""},
      {{key.substr(0, key.size() - 1) + "G"}, "this is not a public key: \"" + key.substr(0, key.size() - 1) + "G\""},
      {{(folder / "signed.ingot").string()}, (folder / "signed.ingot").string() + " has a line that is not a public key: it is not text"},
      {{(folder / "bad").string()}, (folder / "bad").string() + " has a line that is not a public key: \"hello\""},
  };
  for (const auto& [keys, message] : cases) {
    try {
      read_keys(keys);
      FAIL() << message;
    } catch (const Error& e) {
      EXPECT_EQ(e.code, Code::invalid_input);
      EXPECT_EQ(e.message, message);
      EXPECT_FALSE(e.remedy.empty());
    }
  }
  try {  // a secret key is not shown
    read_keys(std::vector{(folder / "me.key").string()});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.message, (folder / "me.key").string() + " has a line that is a secret key");
  }
}

TEST_F(SignedPlan, KeysAreNotOverwrittenAndTheSecretOneIsForItsUserAlone) {
  EXPECT_THROW(make_keys(folder / "me"), Error);
  struct stat status;
  ASSERT_EQ(::stat((folder / "me.key").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_THROW(sign_file(folder / "plain.ingot", folder / "me.pub", folder / "x.ingot"), Error);
  std::vector<std::byte> bad = bytes("plain.ingot");
  bad[bad.size() - 60] ^= std::byte{1};
  std::ofstream(folder / "bad.ingot", std::ios::binary).write(reinterpret_cast<const char*>(bad.data()), static_cast<long>(bad.size()));
  EXPECT_THROW(sign_file(folder / "bad.ingot", folder / "me.key", folder / "x.ingot"), Error);  // damage is not signed
  EXPECT_FALSE(std::filesystem::exists(folder / "x.ingot"));
}

}  // namespace
}  // namespace ingot::plan
