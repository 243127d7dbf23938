# SPDX-License-Identifier: Apache-2.0
"""A package cuda of which tests take cuda.bindings.driver; see bindings/driver.py."""
