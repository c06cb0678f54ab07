#include "jax/ffi_host.h"

#include <memory>

struct XLA_FFI_Error {
  posenc::testing::FfiResult result;
};

namespace posenc::testing {
namespace {

XLA_FFI_Error* create_error(XLA_FFI_Error_Create_Args* args) {
  return new XLA_FFI_Error{{args->errc, args->message}};
}
void get_details(XLA_FFI_Error_GetDetails_Args* args) {
  args->message = args->error->result.message.c_str();
  args->errc = args->error->result.code;
}
void destroy_error(XLA_FFI_Error_Destroy_Args* args) { delete args->error; }

const XLA_FFI_Api& api() {
  static const XLA_FFI_Api kApi = [] {
    XLA_FFI_Api made{};
    made.struct_size = XLA_FFI_Api_STRUCT_SIZE;
    made.api_version = {XLA_FFI_Api_Version_STRUCT_SIZE, nullptr, XLA_FFI_API_MAJOR,
                        XLA_FFI_API_MINOR};
    made.XLA_FFI_Error_Create = create_error;
    made.XLA_FFI_Error_GetDetails = get_details;
    made.XLA_FFI_Error_Destroy = destroy_error;
    return made;
  }();
  return kApi;
}

XLA_FFI_CallFrame empty_frame() {
  XLA_FFI_CallFrame frame{};
  frame.struct_size = XLA_FFI_CallFrame_STRUCT_SIZE;
  frame.api = &api();
  frame.stage = XLA_FFI_ExecutionStage_EXECUTE;
  frame.args.struct_size = XLA_FFI_Args_STRUCT_SIZE;
  frame.rets.struct_size = XLA_FFI_Rets_STRUCT_SIZE;
  frame.attrs.struct_size = XLA_FFI_Attrs_STRUCT_SIZE;
  return frame;
}

// Attributes as the C interface passes them.
struct AttributeArrays {
  explicit AttributeArrays(std::map<std::string, FfiFrame::Attribute>& attributes) {
    for (auto& [name, value] : attributes) {
      names.push_back({name.data(), name.size()});
      if (auto* text = std::get_if<std::string>(&value)) {
        texts.push_back({text->data(), text->size()});
        types.push_back(XLA_FFI_AttrType_STRING);
        values.push_back(&texts.back());
        continue;
      }
      scalars.push_back(scalar_of(value));
      types.push_back(XLA_FFI_AttrType_SCALAR);
      values.push_back(&scalars.back());
    }
    for (XLA_FFI_ByteSpan& name : names) name_pointers.push_back(&name);
  }
  static XLA_FFI_Scalar scalar_of(FfiFrame::Attribute& value) {
    if (auto* number = std::get_if<double>(&value)) return {XLA_FFI_DataType_F64, number};
    return {XLA_FFI_DataType_S64, std::get_if<std::int64_t>(&value)};
  }

  std::deque<XLA_FFI_ByteSpan> names, texts;
  std::deque<XLA_FFI_Scalar> scalars;
  std::vector<XLA_FFI_ByteSpan*> name_pointers;
  std::vector<XLA_FFI_AttrType> types;
  std::vector<void*> values;
};

}  // namespace

XLA_FFI_DataType ffi_type(DType dtype) {
  if (dtype == DType::kFloat32) return XLA_FFI_DataType_F32;
  return dtype == DType::kBfloat16 ? XLA_FFI_DataType_BF16 : XLA_FFI_DataType_F16;
}

FfiFrame::Buffer& FfiFrame::add(std::deque<Buffer>& to, XLA_FFI_DataType type, void* data,
                                std::vector<std::int64_t> shape) {
  Buffer& buffer = to.emplace_back();
  buffer.shape = std::move(shape);
  buffer.c = {XLA_FFI_Buffer_STRUCT_SIZE,
              nullptr,
              type,
              data,
              static_cast<std::int64_t>(buffer.shape.size()),
              buffer.shape.data()};
  return buffer;
}

void FfiFrame::operand(XLA_FFI_DataType type, const void* data, std::vector<std::int64_t> shape) {
  add(operands_, type, const_cast<void*>(data), std::move(shape));
}
void FfiFrame::result(XLA_FFI_DataType type, void* data, std::vector<std::int64_t> shape) {
  add(results_, type, data, std::move(shape));
}
void FfiFrame::operand(cases::Tensor& x) {
  const TensorView view = x.view();
  operand(ffi_type(view.dtype), view.data, {view.shape.begin(), view.shape.end()});
}
void FfiFrame::result(cases::Tensor& x) {
  const TensorView view = x.view();
  result(ffi_type(view.dtype), view.data, {view.shape.begin(), view.shape.end()});
}

FfiResult FfiFrame::run(XLA_FFI_Handler* handler) {
  std::vector<XLA_FFI_ArgType> arg_types(operands_.size(), XLA_FFI_ArgType_BUFFER);
  std::vector<XLA_FFI_RetType> ret_types(results_.size(), XLA_FFI_RetType_BUFFER);
  std::vector<void*> args;
  std::vector<void*> rets;
  for (Buffer& buffer : operands_) args.push_back(&buffer.c);
  for (Buffer& buffer : results_) rets.push_back(&buffer.c);
  AttributeArrays arrays(attributes);
  XLA_FFI_CallFrame frame = empty_frame();
  frame.args.size = static_cast<std::int64_t>(args.size());
  frame.args.types = arg_types.data();
  frame.args.args = args.data();
  frame.rets.size = static_cast<std::int64_t>(rets.size());
  frame.rets.types = ret_types.data();
  frame.rets.rets = rets.data();
  frame.attrs.size = static_cast<std::int64_t>(arrays.values.size());
  frame.attrs.types = arrays.types.data();
  frame.attrs.names = arrays.name_pointers.data();
  frame.attrs.attrs = arrays.values.data();
  const std::unique_ptr<XLA_FFI_Error> error(handler(&frame));
  return error == nullptr ? FfiResult{} : error->result;
}

XLA_FFI_Api_Version version_of(XLA_FFI_Handler* handler) {
  XLA_FFI_Metadata metadata{};
  metadata.struct_size = XLA_FFI_Metadata_STRUCT_SIZE;
  XLA_FFI_Metadata_Extension extension{
      {XLA_FFI_Metadata_Extension_STRUCT_SIZE, XLA_FFI_Extension_Metadata, nullptr}, &metadata};
  XLA_FFI_CallFrame frame = empty_frame();
  frame.extension_start = &extension.extension_base;
  handler(&frame);
  return metadata.api_version;
}

}  // namespace posenc::testing
