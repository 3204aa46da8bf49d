"""OpenSCENARIO files for tests, put together from the parts that matter."""

from pathlib import Path
from textwrap import indent

HEADER = '<FileHeader revMajor="1" revMinor="2" date="2026-01-01T00:00:00" description="{description}" author="samepath"/>'


def vehicle(name: str, kind: str = "vehicle.mini.cooper_s", category: str = "car") -> str:
    box = '<BoundingBox><Center x="0" y="0" z="0.7"/><Dimensions width="1.7" length="3.7" height="1.4"/></BoundingBox>'
    return f'<ScenarioObject name="{name}"><Vehicle name="{kind}" vehicleCategory="{category}">{box}</Vehicle></ScenarioObject>'


def pedestrian(name: str) -> str:
    return (
        f'<ScenarioObject name="{name}"><Pedestrian name="walker.pedestrian.0001" model="" mass="80" '
        'pedestrianCategory="pedestrian"/></ScenarioObject>'
    )


def lane(road: int, lane_id: int, s_m: float, offset_m: float = 0.0) -> str:
    return f'<LanePosition roadId="{road}" laneId="{lane_id}" s="{s_m}" offset="{offset_m}"/>'


def world(x_m: float, y_m: float, heading_rad: float = 0.0) -> str:
    return f'<WorldPosition x="{x_m}" y="{y_m}" h="{heading_rad}"/>'


def at(place: str) -> str:
    return f"<TeleportAction><Position>{place}</Position></TeleportAction>"


def speed(mps: float | str, shape: str = "step", value: float = 0.0, dimension: str = "time") -> str:
    return (
        f'<LongitudinalAction><SpeedAction><SpeedActionDynamics dynamicsShape="{shape}" value="{value}" '
        f'dynamicsDimension="{dimension}"/><SpeedActionTarget><AbsoluteTargetSpeed value="{mps}"/></SpeedActionTarget>'
        "</SpeedAction></LongitudinalAction>"
    )


def init(**actions: list[str]) -> str:
    return "".join(
        f'<Private entityRef="{name}">{"".join(f"<PrivateAction>{action}</PrivateAction>" for action in ones)}</Private>'
        for name, ones in actions.items()
    )


def by_value(condition: str, *, edge: str = "none", delay_s: float = 0.0, name: str = "condition") -> str:
    return (
        f'<ConditionGroup><Condition name="{name}" delay="{delay_s}" conditionEdge="{edge}"><ByValueCondition>'
        f"{condition}</ByValueCondition></Condition></ConditionGroup>"
    )


def by_entity(entity: str, condition: str, *, edge: str = "none") -> str:
    return (
        f'<ConditionGroup><Condition name="condition" delay="0" conditionEdge="{edge}"><ByEntityCondition>'
        f'<TriggeringEntities triggeringEntitiesRule="any"><EntityRef entityRef="{entity}"/></TriggeringEntities>'
        f"<EntityCondition>{condition}</EntityCondition></ByEntityCondition></Condition></ConditionGroup>"
    )


def after(time_s: float) -> str:
    return by_value(f'<SimulationTimeCondition value="{time_s}" rule="greaterThan"/>')


def event(name: str, action: str, trigger: str, *, priority: str = "parallel", times: int = 1) -> str:
    return (
        f'<Event name="{name}" priority="{priority}" maximumExecutionCount="{times}"><Action name="{name} action">'
        f"<PrivateAction>{action}</PrivateAction></Action><StartTrigger>{trigger}</StartTrigger></Event>"
    )


def story(actor: str, *events: str, stop: str = "") -> str:
    return (
        '<Story name="story"><Act name="act"><ManeuverGroup name="group" maximumExecutionCount="1">'
        f'<Actors selectTriggeringEntities="false"><EntityRef entityRef="{actor}"/></Actors>'
        f'<Maneuver name="maneuver">{"".join(events)}</Maneuver></ManeuverGroup><StartTrigger>{after(-1)}</StartTrigger>'
        f"<StopTrigger>{stop}</StopTrigger></Act></Story>"
    )


def document(
    entities: str,
    actions: str,
    stories: str = "",
    *,
    end_s: float | None = 10.0,
    road_map: str = "oval",
    description: str = "test",
    parameters: str = "",
) -> str:
    stop = f"<StopTrigger>{after(end_s)}</StopTrigger>" if end_s is not None else "<StopTrigger/>"
    body = (
        f"{HEADER.format(description=description)}\n<ParameterDeclarations>{parameters}</ParameterDeclarations>\n"
        f'<CatalogLocations/>\n<RoadNetwork><LogicFile filepath="{road_map}"/></RoadNetwork>\n'
        f"<Entities>{entities}</Entities>\n<Storyboard><Init><Actions>{actions}</Actions></Init>{stories}{stop}</Storyboard>\n"
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<OpenSCENARIO>\n{indent(body, "  ")}</OpenSCENARIO>\n'


def write(folder: Path, text: str, name: str = "scenario.xosc") -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path
