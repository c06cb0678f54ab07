# Installs the Python package with pip from the source tree into a fresh folder, and imports it there.
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK}/tree)
# A copy: pip leaves its own files in the tree it builds from.
foreach(part IN ITEMS pyproject.toml setup.py README.md python include)
  file(COPY ${SOURCE}/${part} DESTINATION ${WORK}/tree)
endforeach()
set(ENV{POSENC_PREBUILT} ${BUILD}/python)
execute_process(
  COMMAND ${PYTHON} -m pip install --quiet --no-index --no-deps --no-build-isolation --target
          ${WORK}/site ${WORK}/tree
  RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said)
if(failed)
  message(FATAL_ERROR "pip install failed:\n${said}")
endif()
execute_process(
  COMMAND
    ${CMAKE_COMMAND} -E env PYTHONPATH=${WORK}/site ${PYTHON} -c
    "import torch, posenc; q = torch.randn(1, 2, 5, 8); print(posenc.__file__, posenc.attention(q, q, q, 'rope + alibi', causal=True).shape)"
  WORKING_DIRECTORY ${WORK}
  RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE problems)
if(failed OR NOT said MATCHES "site/posenc/__init__.py torch.Size")
  message(FATAL_ERROR "the installed package does not work:\n${said}${problems}")
endif()
message(STATUS "${said}")
