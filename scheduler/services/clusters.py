"""Making clusters."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils.translation import gettext

from budgets.errors import InputError
from budgets.models import Cluster
from scheduler.services import policies


def create(
    *,
    name: str,
    title: str = "",
    unit: str = Cluster.Unit.GPU,
    model: str = "",
    executor: str = Cluster.Executor.AGENT,
    position: int = 0,
) -> Cluster:
    """A cluster without nodes yet, under the default policy.

    Raises:
        InputError: names the field; the name is taken or not of letters, digits, - and _, or a choice is unknown.
    """
    cluster = Cluster(name=name, title=title, unit=unit, model=model, executor=executor, position=position)
    try:
        cluster.clean_fields()
    except ValidationError as error:
        field, messages = next(iter(error.message_dict.items()))
        raise InputError(field, messages[0]) from None
    with transaction.atomic():
        try:
            with transaction.atomic():
                cluster.save()
        except IntegrityError:
            raise InputError("name", gettext("there is a cluster {name} already").format(name=name)) from None
        policies.ensure(cluster)
    return cluster
