// The dashboards that package dashboard prints, in Grafana's own types: a row, or a panel of the kind "timeseries".
import type * as grafana from "@grafana/schema";
import type {
	FieldConfig,
	Options,
} from "@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen";

export type Board = JSONOf<Omit<Named<grafana.Dashboard>, "panels"> & { panels: (Row | Graph)[] }>;

type Row = Omit<Named<grafana.RowPanel>, "panels"> & { panels?: Graph[] };

type Graph = Omit<Named<grafana.Panel>, "type" | "options" | "fieldConfig" | "targets"> & {
	type: "timeseries";
	options: Options;
	fieldConfig: {
		defaults: Omit<Named<grafana.FieldConfig>, "custom"> & { custom: FieldConfig };
		overrides: Override[];
	};
	targets: (grafana.DataQuery & { expr: string; legendFormat: string })[];
};

type Override = {
	matcher: { id: "byName"; options: string };
	properties: (
		| { id: "custom.lineStyle"; value: FieldConfig["lineStyle"] }
		| { id: "custom.fillOpacity"; value: FieldConfig["fillOpacity"] }
	)[];
};

// Named has the fields of a type that have names, so that one which Grafana does not have is an error.
type Named<T> = { [K in keyof T as string extends K ? never : K]: T[K] };

// JSONOf has the texts of enumerations in the place of their constants.
type JSONOf<T> = T extends string
	? `${T}`
	: T extends number | boolean | null | undefined
		? T
		: T extends (infer E)[]
			? JSONOf<E>[]
			: { [K in keyof T]: JSONOf<T[K]> };
