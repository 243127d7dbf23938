// SPDX-License-Identifier: Apache-2.0
// Any bytes as what a compiler or an assembler prints: taken apart without loss of order, turned into an error that
// prints, and remarks that read back from the metadata of a cache entry.
#include "base/text.hpp"
#include "support.hpp"
#include "toolchain/failure.hpp"
#include "toolchain/messages.hpp"
#include "toolchain/nvrtc_failure.hpp"
#include "toolchain/ptxas_remarks.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace codetta;
  using namespace codetta::toolchain;
  using fuzz::check_error, fuzz::require;
  const std::string_view log = fuzz::view_of(data, size);
  const size_t lines = base::split(log, '\n').size();
  require(parse_compiler_messages(log).size() <= lines && parse_cuda_messages(log).size() <= lines);

  const std::vector<PtxasRemarks> remarks = parse_ptxas_remarks(log);
  if (const auto fits = check_remarks(remarks, "kernel"); !fits) check_error(fits.error(), 500, 599);
  require(decode_remarks(encode_remarks(remarks)) == remarks);
  const std::vector<PtxasRemarks> read = decode_remarks(log);
  require(decode_remarks(encode_remarks(read)) == read);

  // The source is untrusted as well: the log's first half. What a user's own source gets is E0313.
  const HostCompiler compiler;
  const CompileJob job{std::string(log.substr(0, size / 2)), {"-O2"}, "label"};
  const CompileOptions options;
  const std::string program = "c++", folder = "/nowhere";
  const std::vector<std::string> arguments{"-O2", std::string(log.substr(0, 20))};
  base::ProcessResult result;
  result.exit_code = 1;
  result.errors = std::string(log);
  const Error failed = run_failed({compiler, job, options, program, arguments, folder}, result);
  check_error(failed, failed.code() == 313 ? 313 : 504, 507);
  require(failed.code() != 313 || is_users(job.source));
  return 0;
}
