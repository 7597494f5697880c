// Renders a Helm chart without Helm, for the test of deploy/chart: Helm is Go's text/template with the functions of
// sprig and a few of its own. Only what the chart uses is here. Needs Debian's packages golang-go,
// golang-github-masterminds-sprig-dev and golang-gopkg-yaml.v3-dev.
//
//	render CHART VALUES RELEASE [NOTES.txt]    VALUES is a YAML or JSON file that is merged over values.yaml. With a
//	                                            fourth argument, only that template is printed
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"gopkg.in/yaml.v3"
)

type values = map[string]interface{}

type files struct{ folder string }

func (f files) Get(name string) string {
	bytes, err := os.ReadFile(filepath.Join(f.folder, name))
	if err != nil {
		return ""
	}
	return string(bytes)
}

func read(path string) values {
	bytes, err := os.ReadFile(path)
	check(err)
	found := values{}
	check(yaml.Unmarshal(bytes, &found))
	return found
}

func merge(into, from values) values {
	for key, value := range from {
		inner, isMap := value.(values)
		known, wasMap := into[key].(values)
		if isMap && wasMap {
			into[key] = merge(known, inner)
		} else {
			into[key] = value
		}
	}
	return into
}

func toYaml(value interface{}) (string, error) {
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	err := encoder.Encode(value)
	return strings.TrimSuffix(text.String(), "\n"), err
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	folder, release := os.Args[1], os.Args[3]
	chart := read(filepath.Join(folder, "Chart.yaml"))
	root := values{
		"Values":  merge(read(filepath.Join(folder, "values.yaml")), read(os.Args[2])),
		"Release": values{"Name": release, "Namespace": "default", "Service": "Helm"},
		"Chart":   values{"Name": chart["name"], "Version": chart["version"], "AppVersion": chart["appVersion"]},
		"Files":   files{folder},
	}
	all := template.New("chart").Option("missingkey=zero")
	functions := sprig.TxtFuncMap()
	functions["toYaml"] = toYaml
	// As Helm's function, it returns the fault in a map.
	functions["fromYaml"] = func(text string) values {
		found := values{}
		if err := yaml.Unmarshal([]byte(text), &found); err != nil {
			found = values{"Error": err.Error()}
		}
		return found
	}
	functions["include"] = func(name string, data interface{}) (string, error) {
		var text bytes.Buffer
		err := all.ExecuteTemplate(&text, name, data)
		return text.String(), err
	}
	functions["required"] = func(message string, value interface{}) (interface{}, error) {
		list, isList := value.([]interface{})
		if value == nil || value == "" || (isList && len(list) == 0) {
			return nil, errors.New(message)
		}
		return value, nil
	}
	all.Funcs(functions)
	paths, err := filepath.Glob(filepath.Join(folder, "templates", "*"))
	check(err)
	for _, path := range paths {
		bytes, err := os.ReadFile(path)
		check(err)
		_, err = all.New(filepath.Base(path)).Parse(string(bytes))
		check(err)
	}
	for _, path := range paths {
		name := filepath.Base(path)
		var text bytes.Buffer
		check(all.ExecuteTemplate(&text, name, root))
		if len(os.Args) > 4 {
			if name == os.Args[4] {
				fmt.Print(text.String())
			}
		} else if strings.HasSuffix(name, ".yaml") {
			fmt.Printf("---\n%s\n", strings.ReplaceAll(text.String(), "<no value>", ""))
		}
	}
}
