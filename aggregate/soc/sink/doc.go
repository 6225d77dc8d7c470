// Package sink brings records of package soc to where a SOC reads them: a topic, a
// file, a syslog server, a webhook, Alertmanager. A sink keeps no queue and tries
// once; soc.Outlet does the rest.
package sink
