"""Prints the scalars of a TensorBoard event file, one per line, after checking every checksum.

Standard library only, and nothing of the writer: the format as its specification says it.
"""

import struct
import sys


def masked_crc32c(data):
    """CRC-32C bit by bit, rotated right by 15 and offset."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    """Payloads of the file."""
    at = 0
    while at < len(data):
        head = data[at : at + 8]
        (length,) = struct.unpack("<Q", head)
        (head_crc,) = struct.unpack("<I", data[at + 8 : at + 12])
        payload = data[at + 12 : at + 12 + length]
        (crc,) = struct.unpack("<I", data[at + 12 + length : at + 16 + length])
        if head_crc != masked_crc32c(head) or crc != masked_crc32c(payload):
            sys.exit(f"byte {at}: a checksum does not fit")
        yield payload
        at += 16 + length


def fields(message):
    """Pairs (field number, value) of a protobuf message; numbers or bytes."""
    at = 0

    def varint():
        nonlocal at
        number, shift = 0, 0
        while True:
            byte = message[at]
            at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    while at < len(message):
        key = varint()
        kind = key & 7
        if kind == 0:
            yield key >> 3, varint()
        else:
            size = {1: 8, 5: 4}.get(kind) or varint()
            yield key >> 3, message[at : at + size]
            at += size


def hyperparameter(entry):
    """name=value of an entry of SessionStartInfo.hparams, whose value is a google.protobuf.Value."""
    name, value = (dict(fields(entry))[number] for number in (1, 2))
    ((kind, content),) = fields(value)
    shown = {2: lambda: struct.unpack("<d", content)[0], 3: lambda: repr(content.decode()), 4: lambda: bool(content)}
    return f"{name.decode()}={shown[kind]()}"


def print_plugin(value):
    """A summary of the plugin hparams (HParamsPluginData), or of another one by its name."""
    tensor = dict(fields(value[8]))
    if tensor[1] != 1 or len(tensor[5]) != 4:
        sys.exit(f"{value[1].decode()}: the tensor is not one float")
    plugin = dict(fields(dict(fields(value[9]))[1]))
    print("plugin", plugin[1].decode(), value[1].decode())
    for number, message in fields(plugin[2]):
        for field, content in fields(message):
            if number == 3 and field == 1:
                print(" ", hyperparameter(content))
            if number == 4 and field == 1:
                print("  status", content)


def main():
    with open(sys.argv[1], "rb") as file:
        payloads = list(records(file.read()))
    for payload in payloads:
        event = dict(fields(payload))
        if 3 in event:
            print("version", event[3].decode())
        if 7 in event:
            print("start", event[2], dict(fields(event[7]))[1])
        if 5 in event:
            value = dict(fields(dict(fields(event[5]))[1]))
            if 9 in value:
                print_plugin(value)
                continue
            (number,) = struct.unpack("<f", value[2])
            print("scalar", value[1].decode(), event[2], number)


if __name__ == "__main__":
    main()
