# SPDX-License-Identifier: Apache-2.0
"""Makes a wheel of the package beside it, for pip (PEP 517): see pyproject.toml."""
import base64
import hashlib
import os
import re
import zipfile

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PACKAGE = os.path.join(TOP, "giltrace")
KINDS = (".py", ".pyi", ".typed")

METADATA = """Metadata-Version: 2.1
Name: giltrace
Version: %s
Summary: Record the GIL from inside a Python program
License: Apache-2.0
Requires-Python: >=3.6
"""

WHEEL = """Wheel-Version: 1.0
Generator: giltrace
Root-Is-Purelib: true
Tag: py3-none-any
"""


def version():
    with open(os.path.join(PACKAGE, "__init__.py"), encoding="utf-8") as f:
        return re.search(r'^__version__ = "(.*)"$', f.read(), re.M).group(1)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    info = "giltrace-%s.dist-info/" % version()
    files = {info + "METADATA": (METADATA % version()).encode(), info + "WHEEL": WHEEL.encode()}
    for name in os.listdir(PACKAGE):
        if name.endswith(KINDS):
            with open(os.path.join(PACKAGE, name), "rb") as f:
                files["giltrace/" + name] = f.read()
    record = ""
    for name, data in sorted(files.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += "%s,sha256=%s,%d\n" % (name, digest, len(data))
    files[info + "RECORD"] = (record + info + "RECORD,,\n").encode()
    wheel = "giltrace-%s-py3-none-any.whl" % version()
    with zipfile.ZipFile(os.path.join(wheel_directory, wheel), "w", zipfile.ZIP_DEFLATED) as z:
        for name, data in sorted(files.items()):
            info = zipfile.ZipInfo(name)  # with no time of its own: the same bytes for the same files
            info.external_attr = 0o644 << 16
            z.writestr(info, data, zipfile.ZIP_DEFLATED)
    return wheel
