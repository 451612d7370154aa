"""Inverse and forward dynamics of trees of rigid bodies, with first and second derivatives."""
