/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Listings. Every listing is built once, as a JSON array of flat rows, and printed as JSON or as a table; so both
 * forms always hold the same fields.
 */
#include "tools/simhca/simhca.h"

#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

static struct json_object *must(struct json_object *o)
{
	if (!o)
		exit(complain("out of memory"));
	return o;
}

static void put(struct json_object *row, const char *key, struct json_object *value)
{
	if (json_object_object_add(row, key, value) < 0)
		exit(complain("out of memory"));
}

struct json_object *list_new(void)
{
	return must(json_object_new_array());
}

struct json_object *obj_new(void)
{
	return must(json_object_new_object());
}

void obj_free(struct json_object *obj)
{
	json_object_put(obj);
}

struct json_object *row_add(struct json_object *list)
{
	struct json_object *row = obj_new();
	if (json_object_array_add(list, row) < 0)
		exit(complain("out of memory"));
	return row;
}

void row_str(struct json_object *row, const char *key, const char *value)
{
	put(row, key, must(json_object_new_string(value)));
}

void row_int(struct json_object *row, const char *key, uint64_t value)
{
	put(row, key, must(json_object_new_uint64(value)));
}

void row_bool(struct json_object *row, const char *key, bool value)
{
	put(row, key, must(json_object_new_boolean(value)));
}

void row_null(struct json_object *row, const char *key)
{
	put(row, key, NULL);
}

void row_obj(struct json_object *row, const char *key, struct json_object *value)
{
	put(row, key, value);
}

/* Text of a cell as a table shows it. */
static const char *cell(struct json_object *value)
{
	if (!value)
		return "-";
	if (json_object_is_type(value, json_type_boolean))
		return json_object_get_boolean(value) ? "yes" : "no";
	const char *text = json_object_get_string(value);
	return text && *text ? text : "-";
}

#define COLUMNS_MAX 32

static void print_table(struct json_object *list)
{
	size_t rows = json_object_array_length(list);
	size_t width[COLUMNS_MAX], columns = 0;
	bool number[COLUMNS_MAX];
	if (rows == 0)
		return;

	json_object_object_foreach(json_object_array_get_idx(list, 0), key, first)
	{
		if (columns == COLUMNS_MAX)
			break;
		width[columns] = strlen(key);
		number[columns] = json_object_is_type(first, json_type_int);
		for (size_t i = 0; i < rows; i++) {
			struct json_object *value = json_object_object_get(json_object_array_get_idx(list, i), key);
			width[columns] = MAX(width[columns], strlen(cell(value)));
		}
		columns++;
	}
	for (size_t i = 0; i <= rows; i++) {
		size_t c = 0;
		json_object_object_foreach(json_object_array_get_idx(list, i ? i - 1 : 0), name, value)
		{
			const char *text = i ? cell(value) : name;
			if (c == columns)
				break;
			if (number[c])
				printf("%*s", (int)width[c], text);
			else if (c + 1 < columns)
				printf("%-*s", (int)width[c], text);
			else
				printf("%s", text);
			printf("%s", ++c < columns ? "  " : "\n");
		}
	}
}

static int flushed(void)
{
	return fflush(stdout) || ferror(stdout) ? complain("writing: %s", strerror(errno)) : 0;
}

int json_print(struct json_object *obj)
{
	const char *text =
	    json_object_to_json_string_ext(obj, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE);
	if (!text)
		exit(complain("out of memory"));
	puts(text);
	json_object_put(obj);
	return flushed();
}

int list_print(const char *name, struct json_object *list, bool json)
{
	if (json) {
		struct json_object *top = obj_new();
		row_obj(top, name, list);
		return json_print(top);
	}
	print_table(list);
	json_object_put(list);
	return flushed();
}
